// Sliced ELL with sorted windows, SELL-C-sigma (Kreutzer et al. 2014; with sigma = 1 the sliced ELL of Monakov et al.
// 2010): slices of `slice_height` (C) rows, each stored column by column and padded to the longest of its rows.
//
// Within every window of `sort_window` (sigma) rows the rows are sorted by decreasing length, rows of one length in
// their original order, so that rows of a slice are about equally long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "warploom/csr_view.hpp"
#include "warploom/formats/csr.hpp"

namespace warploom {

struct sell_matrix {
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  value_type dtype = value_type::float32;
  int slice_height = 32;
  std::int64_t sort_window = 1;
  std::int64_t num_entries = 0;
  // Entry j of row r of slice s is at slice_ptr[s] + j * slice_height + r. The last slice is padded to the
  // full height.
  std::vector<std::int64_t> slice_ptr{0};  // [number of slices + 1]
  std::vector<std::int32_t> row_ids;       // stored row p is row row_ids[p] of the matrix; empty: row p
  std::vector<std::int32_t> indices;       // -1 where padded
  std::vector<std::byte> data;             // 0 where padded

  std::int64_t nnz() const { return num_entries; }
  std::int64_t num_slices() const { return static_cast<std::int64_t>(slice_ptr.size()) - 1; }
  std::int64_t width(std::int64_t slice) const { return (slice_ptr[slice + 1] - slice_ptr[slice]) / slice_height; }
  std::int64_t places() const { return slice_ptr.back(); }
  std::int64_t row_of(std::int64_t stored_row) const { return row_ids.empty() ? stored_row : row_ids[stored_row]; }
  std::size_t bytes() const;
  std::vector<format_field> fields() const;
};

// Number of places that to_sell would store.
std::int64_t sell_places(const csr_pattern& matrix, int slice_height, std::int64_t sort_window);

// Throws error_kind::parameter for a slice height or a window below 1.
sell_matrix to_sell(const csr_view& matrix, int slice_height, std::int64_t sort_window);
csr_matrix to_csr(const sell_matrix& matrix);

}  // namespace warploom
