// The innermost loops of the CPU kernels: some nonzeros of a row of A times a tile of columns of B.
//
// The sum of an element of C runs over the nonzeros in stored order, in the value type, starting from 0. It is the same
// for every tile width. Where the processor has fused multiply-add, the compiler may use it.
#pragma once

#include <cstdint>

#include "kernels/cpu/instruction_sets.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

template <class Value, layout order>
struct dense_tile_view {
  explicit dense_tile_view(const dense_view& view)
      : data(static_cast<Value*>(view.data)), leading_dimension(view.leading_dimension) {}

  WARPLOOM_INLINE Value* at(std::int64_t row, std::int64_t column) const {
    return order == layout::row_major ? data + row * leading_dimension + column
                                      : data + row + column * leading_dimension;
  }
  // Distance from one column to the next.
  WARPLOOM_INLINE std::int64_t column_stride() const { return order == layout::row_major ? 1 : leading_dimension; }

  Value* data;
  std::int64_t leading_dimension;
};

template <class Value>
struct sparse_row {
  const std::int32_t* indices;
  const Value* values;
  std::int64_t length;
};

// Nonzeros ahead of the one being multiplied. The processor cannot predict which rows of B come next, so without
// this prefetch the product waits for memory.
constexpr std::int64_t prefetch_distance = 6;

template <class Value>
WARPLOOM_INLINE void prefetch([[maybe_unused]] const Value* first, [[maybe_unused]] int count) {
#ifdef __GNUC__
  constexpr int elements_per_line = 64 / sizeof(Value);
  for (int t = 0; t < count; t += elements_per_line) __builtin_prefetch(first + t);
#endif
}

// Whether a product starts the sums in C or continues them. In both cases the additions are the same, in the same
// order, so a row may be multiplied in segments without changing a bit of the result.
enum class sums { start, go_on };

// C(i, j .. j + width) gets row * B(:, j .. j + width), the sums held in registers.
template <int width, class Value, layout order>
WARPLOOM_INLINE void multiply_tile(const sparse_row<Value>& row, const dense_tile_view<Value, order>& B,
                                   const dense_tile_view<Value, order>& C, std::int64_t i, std::int64_t j, sums mode) {
  Value* c = C.at(i, j);
  Value sum[width] = {};
  if (mode == sums::go_on) {
    for (int t = 0; t < width; ++t) sum[t] = c[t * C.column_stride()];
  }
  for (std::int64_t e = 0; e < row.length; ++e) {
    if constexpr (order == layout::row_major) {  // in column-major order it was measured to gain nothing
      if (e + prefetch_distance < row.length) prefetch(B.at(row.indices[e + prefetch_distance], j), width);
    }
    const Value a = row.values[e];
    const Value* b = B.at(row.indices[e], j);
    for (int t = 0; t < width; ++t) sum[t] += a * b[t * B.column_stride()];
  }
  for (int t = 0; t < width; ++t) c[t * C.column_stride()] = sum[t];
}

// The same for any number of columns: tiles of `width` columns, then of width/2, ... down to 1.
template <int width, class Value, layout order>
WARPLOOM_INLINE void multiply_columns(const sparse_row<Value>& row, const dense_tile_view<Value, order>& B,
                                      const dense_tile_view<Value, order>& C, std::int64_t i, std::int64_t j,
                                      std::int64_t count, sums mode = sums::start) {
  for (; count >= width; j += width, count -= width) multiply_tile<width>(row, B, C, i, j, mode);
  if constexpr (width > 1) {
    if (count > 0) multiply_columns<width / 2>(row, B, C, i, j, count, mode);
  }
}

// The same for rows of any length: a long row is taken in segments, so that the parts of B a segment reads are still in
// the cache for its next tile of columns.
template <int width, class Value, layout order>
WARPLOOM_INLINE void multiply_row(sparse_row<Value> row, const dense_tile_view<Value, order>& B,
                                  const dense_tile_view<Value, order>& C, std::int64_t i, std::int64_t j,
                                  std::int64_t count) {
  constexpr std::int64_t piece = 64;
  sums mode = sums::start;
  for (; count > width && row.length > piece; mode = sums::go_on) {
    multiply_columns<width>(sparse_row<Value>{row.indices, row.values, piece}, B, C, i, j, count, mode);
    row = {row.indices + piece, row.values + piece, row.length - piece};
  }
  multiply_columns<width>(row, B, C, i, j, count, mode);
}

}  // namespace warploom
