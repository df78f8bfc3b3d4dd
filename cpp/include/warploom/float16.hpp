// IEEE 754 half precision as the host stores and converts it; arithmetic is done in float32.
#pragma once

#include <bit>
#include <cstdint>

namespace warploom {

struct float16 {
  std::uint16_t bits = 0;

  float16() = default;
  explicit float16(float value) : bits(round_to_nearest_even(value)) {}
  explicit float16(double value) : float16(static_cast<float>(value)) {}
  explicit float16(int value) : float16(static_cast<float>(value)) {}

  operator float() const {
    const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
    const std::uint32_t magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    // Shifted into place the exponent is 112 too small; the product with 2^112 also normalises subnormals.
    const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
  }

 private:
  static std::uint16_t round_to_nearest_even(float value) {
    const std::uint32_t all = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>(all >> 16 & 0x8000u);
    const std::uint32_t magnitude = all & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign | 0x7e00u;   // NaN
    if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // rounds to 2^16 or more: infinity
    if (magnitude < 0x38800000u) {
      // Below 2^-14: adding 2^-1 leaves the multiples of 2^-24, rounded to even, in the last bits of the sum.
      const float sum = std::bit_cast<float>(magnitude) + 0.5f;
      return sign | static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(sum) - 0x3f000000u);
    }
    const std::uint32_t odd = magnitude >> 13 & 1u;
    return sign | static_cast<std::uint16_t>((magnitude + 0xfffu + odd - 0x38000000u) >> 13);
  }
};

}  // namespace warploom
