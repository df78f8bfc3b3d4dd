// Conversions to and from half precision against their definition.
#include "warploom/float16.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

#include "support.hpp"

namespace warploom {
namespace {

float16 from_bits(std::uint16_t bits) {
  float16 value;
  value.bits = bits;
  return value;
}

// the value computed from sign, exponent and fraction.
double by_definition(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 ? -magnitude : magnitude;
}

}  // namespace

TEST_CASE("every finite float16 has the value its bits define, and comes back") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float16 value = from_bits(static_cast<std::uint16_t>(bits));
    if ((bits >> 10 & 31) == 31) continue;
    CHECK(static_cast<double>(+value) == by_definition(value.bits));
    CHECK(float16(+value).bits == value.bits);
  }
}

TEST_CASE("infinity and NaN") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(float16(infinity).bits == 0x7c00);
  CHECK(float16(-infinity).bits == 0xfc00);
  CHECK(+from_bits(0x7c00) == infinity);
  CHECK(std::isnan(+float16(std::nanf(""))));
  CHECK(std::isnan(+from_bits(0x7e01)));
}

TEST_CASE("values between two float16 go to the nearer one, and to the even one from the middle") {
  for (std::uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const double low = by_definition(bits);
    const double high = by_definition(bits + 1);
    const double middle = (low + high) / 2;
    CHECK(float16(static_cast<float>(middle)).bits == (bits % 2 == 0 ? bits : bits + 1));
    CHECK(float16(std::nextafter(static_cast<float>(middle), 0.0f)).bits == bits);
    CHECK(float16(std::nextafter(static_cast<float>(middle), 1e9f)).bits == bits + 1);
  }
  CHECK(float16(65519.0f).bits == 0x7bff);
  CHECK(float16(65520.0f).bits == 0x7c00);
}

}  // namespace warploom
