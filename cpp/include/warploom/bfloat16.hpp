// bfloat16, the upper half of a float32, as the host stores and converts it; arithmetic is done in float32.
#pragma once

#include <bit>
#include <cstdint>

namespace warploom {

struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  explicit bfloat16(float value) : bits(round_to_nearest_even(value)) {}
  explicit bfloat16(double value) : bfloat16(static_cast<float>(value)) {}
  explicit bfloat16(int value) : bfloat16(static_cast<float>(value)) {}

  operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

 private:
  static std::uint16_t round_to_nearest_even(float value) {
    const std::uint32_t all = std::bit_cast<std::uint32_t>(value);
    if ((all & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(all >> 16 | 0x40u);  // NaN stays NaN
    return static_cast<std::uint16_t>((all + 0x7fffu + (all >> 16 & 1u)) >> 16);
  }
};

}  // namespace warploom
