// TF32 on the CPU.
#pragma once

#include <bit>
#include <cstdint>

namespace warploom {

// As cvt.rna.tf32 rounds: to the nearest number of 11 significant bits, ties away from zero.
inline float rounded_to_tf32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool finite = (bits & 0x7f800000u) != 0x7f800000u;
  return finite ? std::bit_cast<float>((bits + 0x1000u) & 0xffffe000u) : value;
}

}  // namespace warploom
