// DASP (Lu and Liu 2023, Sec. 3.2): rows grouped by length and laid out as the blocks that tensor cores multiply.
//
// A block has mma_m x mma_k slots, stored row by row. One array holds all slots, in five sections:
//   long       rows of more than max_length entries, each padded to whole groups of two blocks;
//   regular    rows of 5 .. max_length entries, sorted by decreasing length (ties by row) and taken mma_m at a time:
//              block b of such a row block holds entries b * mma_k .. (b + 1) * mma_k of each of its rows. It is stored
//              while more than `threshold` of its slots are filled;
//   combined     four slots each: a row of one and a row of three entries, then two rows of two, then one row of four
//   (or
//              of three that no row of one was left for);
//   single     rows of one entry that are not combined;
//   irregular  entries of the rows of the regular section beyond its blocks, row after row.
// Padding has column -1 and value 0. Entries of a row keep their order, so that `to_csr` gives exactly the original
// matrix.
//
// `row_ids` lists the rows in the order of the sections (long, medium, combined, single), then the empty ones. It names
// two rows for each pair; -1 marks the missing second row when the number of rows of two is odd.
//
// The paper stores column 0 in padded slots, which multiplies x[0] by zero: NaN where that is not finite.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "warploom/csr_view.hpp"
#include "warploom/formats/csr.hpp"

namespace warploom {

struct dasp_options {
  int mma_m = 8;
  int mma_k = 4;
  int max_length = 256;
  double threshold = 0.75;

  std::int64_t block_size() const { return std::int64_t{mma_m} * mma_k; }
};

// Rows and stored slots of one category (Fig. 12).
struct dasp_category {
  std::string name;
  std::int64_t rows;
  std::int64_t nnz;
  std::int64_t padding;
};

struct dasp_matrix {
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  std::int64_t num_entries = 0;
  value_type dtype = value_type::float32;
  dasp_options options;

  std::int64_t num_long = 0;       // rows
  std::int64_t num_medium = 0;     // rows
  std::int64_t num_one_three = 0;  // pairs
  std::int64_t num_two_two = 0;    // pairs
  std::int64_t num_four = 0;       // rows
  std::int64_t num_single = 0;     // rows

  std::vector<std::int32_t> row_ids;
  std::vector<std::int64_t> group_ptr{0};      // first group of each long row, and the end
  std::vector<std::int64_t> block_ptr{0};      // first regular block of each row block, and the end
  std::vector<std::int64_t> irregular_ptr{0};  // first irregular entry of each medium row, and the end
  std::vector<std::int32_t> indices;
  std::vector<std::byte> data;

  std::int64_t nnz() const { return num_entries; }
  std::int64_t num_slots() const { return static_cast<std::int64_t>(indices.size()); }
  std::int64_t places() const { return num_slots(); }
  std::size_t bytes() const;  // of the six arrays
  std::vector<format_field> fields() const;
  std::vector<dasp_category> categories() const;

  std::int64_t num_pairs() const { return num_one_three + num_two_two; }
  std::int64_t num_combined() const { return num_pairs() + num_four; }
  std::int64_t num_row_blocks() const { return (num_medium + options.mma_m - 1) / options.mma_m; }
  // Where the sections start in `indices` and `data`; the long one at 0.
  std::int64_t regular_begin() const { return group_ptr.back() * 2 * options.block_size(); }
  std::int64_t combined_begin() const { return regular_begin() + block_ptr.back() * options.block_size(); }
  std::int64_t single_begin() const { return combined_begin() + 4 * num_combined(); }
  std::int64_t irregular_begin() const { return single_begin() + num_single; }

  // Calls function(slot) for the entries of row row_ids[position], in their order.
  template <class Function>
  void for_each_entry(std::int64_t position, Function function) const {
    for_each_run(position, [&](std::int64_t first, std::int64_t count) {
      for (std::int64_t slot = first; slot < first + count && indices[slot] >= 0; ++slot) function(slot);
    });
  }

  // Calls function(first slot, number of slots) for the slots of row row_ids[position]: its entries, then its padding.
  template <class Function>
  void for_each_run(std::int64_t position, Function function) const;
};

// Throws error_kind::parameter for options out of range.
dasp_matrix to_dasp(const csr_view& matrix, const dasp_options& options);
csr_matrix to_csr(const dasp_matrix& matrix);

template <class Function>
void dasp_matrix::for_each_run(std::int64_t position, Function function) const {
  const std::int64_t block = options.block_size();
  if (position < num_long) {
    const std::int64_t group = group_ptr[position];
    return function(group * 2 * block, (group_ptr[position + 1] - group) * 2 * block);
  }
  position -= num_long;
  if (position < num_medium) {
    const std::int64_t row_block = position / options.mma_m;
    const std::int64_t row = position % options.mma_m;
    for (std::int64_t b = block_ptr[row_block]; b < block_ptr[row_block + 1]; ++b) {
      function(regular_begin() + b * block + row * options.mma_k, std::int64_t{options.mma_k});
    }
    return function(irregular_begin() + irregular_ptr[position], irregular_ptr[position + 1] - irregular_ptr[position]);
  }
  position -= num_medium;
  if (position < 2 * num_pairs()) {
    const std::int64_t pair = position / 2;
    const std::int64_t split = pair < num_one_three ? 1 : 2;
    const std::int64_t first = combined_begin() + 4 * pair;
    return position % 2 == 0 ? function(first, split) : function(first + split, 4 - split);
  }
  position -= 2 * num_pairs();
  if (position < num_four) return function(combined_begin() + 4 * (num_pairs() + position), std::int64_t{4});
  position -= num_four;
  if (position < num_single) return function(single_begin() + position, std::int64_t{1});
}

}  // namespace warploom
