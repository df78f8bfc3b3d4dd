// Conversions to and from bfloat16 against their definition.
#include "warploom/bfloat16.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

#include "support.hpp"

namespace warploom {
namespace {

bfloat16 from_bits(std::uint16_t bits) {
  bfloat16 value;
  value.bits = bits;
  return value;
}

// the value computed from sign, exponent and fraction.
double by_definition(std::uint16_t bits) {
  const int exponent = bits >> 7 & 255;
  const int fraction = bits & 127;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -133) : std::ldexp(128 + fraction, exponent - 134);
  return bits >> 15 ? -magnitude : magnitude;
}

}  // namespace

TEST_CASE("every finite bfloat16 has the value its bits define, and comes back") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const bfloat16 value = from_bits(static_cast<std::uint16_t>(bits));
    if ((bits >> 7 & 255) == 255) continue;
    CHECK(static_cast<double>(+value) == by_definition(value.bits));
    CHECK(bfloat16(+value).bits == value.bits);
  }
}

TEST_CASE("bfloat16: infinity and NaN") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(bfloat16(infinity).bits == 0x7f80);
  CHECK(bfloat16(-infinity).bits == 0xff80);
  CHECK(+from_bits(0x7f80) == infinity);
  CHECK(std::isnan(+bfloat16(std::nanf(""))));
  CHECK(std::isnan(+bfloat16(std::bit_cast<float>(0x7f800001u))));  // whose fraction is in the lower half alone
  CHECK(std::isnan(+bfloat16(std::bit_cast<float>(0xffffffffu))));
}

TEST_CASE("values between two bfloat16 go to the nearer one, and to the even one from the middle") {
  for (std::uint16_t bits = 0; bits < 0x7f7f; ++bits) {
    const double low = by_definition(bits);
    const double high = by_definition(bits + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    CHECK(bfloat16(middle).bits == (bits % 2 == 0 ? bits : bits + 1));
    CHECK(bfloat16(std::nextafter(middle, 0.0f)).bits == bits);
    CHECK(bfloat16(std::nextafter(middle, std::numeric_limits<float>::infinity())).bits == bits + 1);
  }
  CHECK(bfloat16(std::numeric_limits<float>::max()).bits == 0x7f80);
}

}  // namespace warploom
