// Panels of columns, for matrices so irregular that a product is limited by fetching x: the part
// of x that belongs to a panel fits into the shared memory of a GPU, where a gather costs no cache sector per nonzero.
//
// Panel p has the columns p * panel_columns .. (p + 1) * panel_columns. Its nonzeros are stored row after row in the
// places panel_ptr[p] .. panel_ptr[p + 1], a multiple of panel_tile; within a row they keep their order. A column
// within its panel takes 16 bits. Rows have no offsets: a bit says which place is the last of its row, and a mask of 32
// bits says which of 32 rows have nonzeros in a panel. Padding is at the end of a panel, after the last row, and has
// the column panel_columns, which no nonzero has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "warploom/csr_view.hpp"
#include "warploom/formats/csr.hpp"

namespace warploom {

// A panel has whole tiles of places: each of a warp's 32 lanes takes 8.
constexpr int panel_tile = 256;
constexpr int rows_per_mask = 32;
// One 16-bit value is reserved for padding.
constexpr int max_panel_columns = 65535;

struct column_panels_matrix {
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  value_type dtype = value_type::float32;
  std::int32_t panel_columns = 1;
  std::int64_t num_nonzeros = 0;
  std::vector<std::int64_t> panel_ptr{0};
  std::vector<std::uint16_t> columns;  // within their panel
  std::vector<std::byte> data;
  std::vector<std::uint8_t> row_ends;  // bit i % 8 of entry i / 8: place i is the last of its row in its panel
  // Of rows 32 b .. 32 b + 32 in panel p, at b * num_panels() + p: bit r for row 32 b + r, and how many sums of rows
  // come before, where those of a panel are numbered by row and those of panel p + 1 follow those of panel p.
  std::vector<std::uint32_t> row_masks;
  std::vector<std::int32_t> first_sums;
  std::int64_t num_sums = 0;  // (row, panel) pairs with nonzeros

  std::int64_t num_panels() const { return static_cast<std::int64_t>(panel_ptr.size()) - 1; }
  std::int64_t num_row_blocks() const { return (num_rows + rows_per_mask - 1) / rows_per_mask; }
  std::int64_t nnz() const { return num_nonzeros; }
  std::int64_t places() const { return static_cast<std::int64_t>(columns.size()); }
  std::size_t bytes() const;  // of the arrays
  std::vector<format_field> fields() const;

  bool ends_row(std::int64_t place) const { return row_ends[place / 8] >> place % 8 & 1; }
  // One past the last place of the row that has `place`.
  std::int64_t row_end(std::int64_t place) const;
};

// Throws error_kind::parameter unless 1 <= panel_columns <= max_panel_columns, error_kind::index_overflow for 2^31
// nonzeros or more.
column_panels_matrix to_column_panels(const csr_view& matrix, int panel_columns);

// Nonzeros of a row come sorted by panel; those of one panel are in the order of the original.
csr_matrix to_csr(const column_panels_matrix& matrix);

// Where the first row of every `step`-th block of rows begins in every panel: entry (b / step) * num_panels() + p.
std::vector<std::int64_t> row_block_places(const column_panels_matrix& matrix, std::int64_t step);

// Calls visit(row, begin, end) for the rows of blocks first .. last that have nonzeros in a panel, in the places
// begin .. end. `place` is where the first of them begins.
template <class Visit>
void for_each_row_of_panel(const column_panels_matrix& matrix, std::int64_t panel, std::int64_t first,
                           std::int64_t last, std::int64_t place, Visit&& visit) {
  for (std::int64_t block = first; block < last; ++block) {
    std::uint32_t mask = matrix.row_masks[block * matrix.num_panels() + panel];
    for (std::int64_t row = block * rows_per_mask; mask != 0; ++row, mask >>= 1) {
      if (!(mask & 1)) continue;
      const std::int64_t end = matrix.row_end(place);
      visit(row, place, end);
      place = end;
    }
  }
}

// Columns of a panel when there are as few panels as can be with at most `most` columns each (at least 64), all about
// equally wide: a multiple of 64, within which products reorder them.
std::int32_t even_panel_columns(std::int64_t num_cols, std::int64_t most);

}  // namespace warploom
