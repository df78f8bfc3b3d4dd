#include "kernels/sampled/sampled_product.hpp"

#include <algorithm>

#include "warploom/parallel.hpp"

namespace warploom {
namespace {

constexpr std::int64_t work_per_range = 16384;  // products of two numbers

template <class Value>
void sample(const csr_pattern& pattern, const dense_view& X, const dense_view& Y, Value* out) {
  const auto* const X_data = static_cast<const Value*>(X.data);
  const auto* const Y_data = static_cast<const Value*>(Y.data);
  const std::int64_t k = X.num_cols;
  const std::int64_t grain = std::max<std::int64_t>(work_per_range / std::max<std::int64_t>(k, 1), 1);
  // Ranges of nonzeros, not of rows: one row may have most of them.
  parallel_for(0, pattern.nnz(), grain, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t* const offsets = pattern.indptr;
    std::int64_t row = std::upper_bound(offsets, offsets + pattern.num_rows + 1, begin) - offsets - 1;
    for (std::int64_t j = begin; j < end; ++j) {
      while (j >= offsets[row + 1]) ++row;
      const Value* const x = X_data + row * X.leading_dimension;
      const Value* const y = Y_data + std::int64_t{pattern.indices[j]} * Y.leading_dimension;
      // Four sums: the compiler may not change the order of one, and would not use vector instructions.
      accumulator_t<Value> sums[4] = {0, 0, 0, 0};
      std::int64_t c = 0;
      for (; c + 4 <= k; c += 4) {
        for (int lane = 0; lane < 4; ++lane) {
          sums[lane] += accumulator_t<Value>(x[c + lane]) * accumulator_t<Value>(y[c + lane]);
        }
      }
      for (; c < k; ++c) sums[0] += accumulator_t<Value>(x[c]) * accumulator_t<Value>(y[c]);
      out[j] = Value((sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
  });
}

}  // namespace

void sampled_product(const csr_pattern& pattern, const dense_view& X, const dense_view& Y, value_type dtype,
                     void* out) {
  dispatch_value_type(dtype, [&](auto value) { sample(pattern, X, Y, static_cast<decltype(value)*>(out)); });
}

}  // namespace warploom
