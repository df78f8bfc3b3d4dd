// What the CPU kernels that walk stored rows share: the rows, how they are distributed, and the plan around a kernel.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cpu/work_ranges.hpp"
#include "kernels/csr/row_storage.hpp"
#include "kernels/spmm/row_tile.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

struct balanced_rows {
  row_storage rows;
  work_ranges ranges;                       // of stored rows
  std::vector<std::int32_t> unstored_rows;  // rows of C that no stored row produces

  explicit balanced_rows(row_storage stored);

  std::int64_t row_of_C(std::int64_t p) const { return rows.row_ids.empty() ? p : rows.row_ids[p]; }

  template <class Value>
  sparse_row<Value> stored_row(std::int64_t p) const {
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

// C = A B, panels of `panel_width` columns outermost, tiles of `width` columns innermost.
template <int width, class Value, layout order>
void multiply_rows(const balanced_rows& rows, std::int64_t panel_width, const dense_view& B_view,
                   const dense_view& C_view) {
  const dense_tile_view<Value, order> B(B_view);
  const dense_tile_view<Value, order> C(C_view);
  for_each_panel(rows.ranges, C_view.num_cols, panel_width,
                 [&](std::int64_t begin, std::int64_t end, std::int64_t first_column, std::int64_t columns) {
                   for (std::int64_t p = begin; p < end; ++p) {
                     multiply_row<width>(rows.stored_row<Value>(p), B, C, rows.row_of_C(p), first_column, columns);
                   }
                 });
  clear_rows(rows.unstored_rows, C_view.num_cols, C);
}

}  // namespace warploom
