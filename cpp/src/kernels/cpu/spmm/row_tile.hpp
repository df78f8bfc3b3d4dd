// The innermost loops of the CPU kernels: some nonzeros of a row of A times a tile of columns of B.
//
// The sum of an element of C runs over the nonzeros in stored order, in the value type, starting from 0. It is the same
// for every tile width. Where the processor has fused multiply-add, the compiler may use it.
#pragma once

#include <cstdint>

#include "warploom/kernels/spmm.hpp"

namespace warploom {

template <class Value, layout order>
struct dense_tile_view {
  explicit dense_tile_view(const dense_view& view)
      : data(static_cast<Value*>(view.data)), leading_dimension(view.leading_dimension) {}

  Value* at(std::int64_t row, std::int64_t column) const {
    return order == layout::row_major ? data + row * leading_dimension + column
                                      : data + row + column * leading_dimension;
  }
  // Distance from one column to the next.
  std::int64_t column_stride() const { return order == layout::row_major ? 1 : leading_dimension; }

  Value* data;
  std::int64_t leading_dimension;
};

template <class Value>
struct sparse_row {
  const std::int32_t* indices;
  const Value* values;
  std::int64_t length;
};

// C(i, j .. j + width) = row * B(:, j .. j + width), the sums held in registers.
template <int width, class Value, layout order>
void multiply_tile(const sparse_row<Value>& row, const dense_tile_view<Value, order>& B,
                   const dense_tile_view<Value, order>& C, std::int64_t i, std::int64_t j) {
  Value sum[width] = {};
  for (std::int64_t e = 0; e < row.length; ++e) {
    const Value a = row.values[e];
    const Value* b = B.at(row.indices[e], j);
    for (int t = 0; t < width; ++t) sum[t] += a * b[t * B.column_stride()];
  }
  Value* c = C.at(i, j);
  for (int t = 0; t < width; ++t) c[t * C.column_stride()] = sum[t];
}

// The same for any number of columns: tiles of `width` columns, then of width/2, ... down to 1.
template <int width, class Value, layout order>
void multiply_columns(const sparse_row<Value>& row, const dense_tile_view<Value, order>& B,
                      const dense_tile_view<Value, order>& C, std::int64_t i, std::int64_t j, std::int64_t count) {
  for (; count >= width; j += width, count -= width) multiply_tile<width>(row, B, C, i, j);
  if constexpr (width > 1) {
    if (count > 0) multiply_columns<width / 2>(row, B, C, i, j, count);
  }
}

}  // namespace warploom
