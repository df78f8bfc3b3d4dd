// Sums of a few neighbouring rows that are stored column by column, as ELL, HYB and SELL-C-sigma have them.
#pragma once

#include <cstdint>

#include "warploom/csr_view.hpp"

namespace warploom {

// Adds column after column of `count` rows times x to their sums. The next column stands `stride` places on.
template <class Value>
void add_columns(accumulator_t<Value>* sums, std::int64_t count, std::int64_t width, const std::int32_t* indices,
                 const Value* values, std::int64_t stride, const Value* x) {
  for (std::int64_t j = 0; j < width; ++j) {
    for (std::int64_t r = 0; r < count; ++r) {
      const std::int32_t column = indices[j * stride + r];
      if (column >= 0) sums[r] += values[j * stride + r] * x[column];  // padding must not meet a NaN in x
    }
  }
}

}  // namespace warploom
