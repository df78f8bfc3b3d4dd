// What the CPU kernels that walk stored rows share: the rows, how they are distributed, and the plan around a kernel.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cpu/work_ranges.hpp"
#include "kernels/csr/row_storage.hpp"
#include "kernels/csr/row_sums.hpp"
#include "kernels/spmm/row_tile.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

struct balanced_rows {
  row_storage rows;
  work_ranges ranges;                       // of stored rows
  std::vector<std::int32_t> unstored_rows;  // rows of C that no stored row produces

  explicit balanced_rows(row_storage stored);

  WARPLOOM_INLINE std::int64_t row_of_C(std::int64_t p) const { return rows.row_ids.empty() ? p : rows.row_ids[p]; }

  template <class Value>
  WARPLOOM_INLINE sparse_row<Value> stored_row(std::int64_t p) const {
    const std::int64_t begin = rows.indptr[p];
    return {rows.indices + begin, static_cast<const Value*>(rows.data) + begin, rows.indptr[p + 1] - begin};
  }
};

using rows_kernel = void (*)(const balanced_rows& rows, const parameter_values& parameters, const dense_view& B,
                             const dense_view& C);

std::unique_ptr<product_plan> make_rows_plan(row_storage rows, const parameter_values& parameters, rows_kernel kernel);

template <class Value, layout order>
void clear_rows(const std::vector<std::int32_t>& rows, std::int64_t k, const dense_tile_view<Value, order>& C) {
  // Along the rows or along the columns, whichever are contiguous in memory.
  const std::int64_t panel_width = order == layout::row_major ? k : 1;
  for (std::int64_t first = 0; first < k; first += panel_width) {
    for (const std::int32_t row : rows) {
      for (std::int64_t j = first; j < first + panel_width; ++j) *C.at(row, j) = 0;
    }
  }
}

// Stored rows of A, and columns of B and C, that one call multiplies.
struct row_block {
  std::int64_t first_row;
  std::int64_t last_row;  // one past the end
  std::int64_t first_column;
  std::int64_t columns;
};

// In row_block.cpp. Callable where the processor has AVX-512.
template <class Value>
void multiply_block_avx512(const balanced_rows& rows, const row_block& block,
                           const dense_tile_view<Value, layout::row_major>& B,
                           const dense_tile_view<Value, layout::row_major>& C);

template <int width, class Value, layout order>
WARPLOOM_INLINE void multiply_block(const balanced_rows& rows, const row_block& block,
                                    const dense_tile_view<Value, order>& B, const dense_tile_view<Value, order>& C) {
  for (std::int64_t p = block.first_row; p < block.last_row; ++p) {
    multiply_row<width>(rows.stored_row<Value>(p), B, C, rows.row_of_C(p), block.first_column, block.columns);
  }
}

template <int width, class Value>
WARPLOOM_FOR_AVX2 void multiply_block_avx2(const balanced_rows& rows, const row_block& block,
                                           const dense_tile_view<Value, layout::row_major>& B,
                                           const dense_tile_view<Value, layout::row_major>& C) {
  multiply_block<2 * width>(rows, block, B, C);
}

template <int width, class Value, layout order>
void multiply_block_on_this_cpu(const balanced_rows& rows, const row_block& block,
                                const dense_tile_view<Value, order>& B, const dense_tile_view<Value, order>& C) {
  if constexpr (order == layout::row_major) {
    if (B.leading_dimension == 1 && C.leading_dimension == 1) {  // vectors, see multiply_rows
      static const auto add_rows = row_sums_for_this_cpu<Value, std::int64_t>();
      const row_storage& A = rows.rows;
      return add_rows({A.indptr.data(), A.indices, static_cast<const Value*>(A.data),
                       A.row_ids.empty() ? nullptr : A.row_ids.data()},
                      block.first_row, block.last_row, B.data, C.data);
    }
  }
  if constexpr (order == layout::row_major && WARPLOOM_HAS_X86_SETS) {
    const instruction_set best = best_instruction_set();
    if (best == instruction_set::avx512) return multiply_block_avx512(rows, block, B, C);
    if (best == instruction_set::avx2) return multiply_block_avx2<width>(rows, block, B, C);
  }
  multiply_block<width>(rows, block, B, C);
}

// C = A B, panels of `panel_width` columns outermost, tiles innermost: of `width` columns, or, in row-major order, of
// as many as half of the vector registers of this processor hold.
template <int width, class Value, layout order>
void multiply_rows(const balanced_rows& rows, std::int64_t panel_width, const dense_view& B_view,
                   const dense_view& C_view) {
  const dense_tile_view<Value, order> B(B_view);
  const dense_tile_view<Value, order> C(C_view);
  if constexpr (order == layout::row_major) {
    // Vectors are multiplied in one way, whatever lies between their elements: they are added up in the same order.
    if (C_view.num_cols == 1 && (B.leading_dimension != 1 || C.leading_dimension != 1)) {
      std::vector<Value> x(B_view.num_rows), y(C_view.num_rows);
      for (std::int64_t i = 0; i < B_view.num_rows; ++i) x[i] = *B.at(i, 0);
      multiply_rows<width, Value, order>(rows, panel_width, {x.data(), B_view.num_rows, 1, 1},
                                         {y.data(), C_view.num_rows, 1, 1});
      for (std::int64_t i = 0; i < C_view.num_rows; ++i) *C.at(i, 0) = y[i];
      return;
    }
  }
  for_each_panel(rows.ranges, C_view.num_cols, panel_width,
                 [&](std::int64_t begin, std::int64_t end, std::int64_t first_column, std::int64_t columns) {
                   multiply_block_on_this_cpu<width>(rows, {begin, end, first_column, columns}, B, C);
                 });
  clear_rows(rows.unstored_rows, C_view.num_cols, C);
}

}  // namespace warploom
