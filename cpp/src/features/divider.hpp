// Division by a number that is fixed for a whole pass and is nearly always a power of two: a shift then, where a
// division per nonzero would cost more than everything else done with it.
#pragma once

#include <bit>
#include <cstdint>

namespace warploom {

struct shift_divider {
  int shift;
  std::uint32_t operator()(std::int32_t column) const { return static_cast<std::uint32_t>(column) >> shift; }
};

struct plain_divider {
  std::uint32_t divisor;
  std::uint32_t operator()(std::int32_t column) const { return static_cast<std::uint32_t>(column) / divisor; }
};

// Calls `function` with the cheaper divider by `divisor` >= 1.
template <class Function>
void with_divider(int divisor, Function&& function) {
  const auto positive = static_cast<std::uint32_t>(divisor);
  if (std::has_single_bit(positive)) {
    function(shift_divider{std::countr_zero(positive)});
  } else {
    function(plain_divider{positive});
  }
}

inline std::int64_t ceil_divide(std::int64_t value, std::int64_t divisor) { return (value + divisor - 1) / divisor; }

}  // namespace warploom
