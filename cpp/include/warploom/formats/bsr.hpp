// Block compressed sparse row: dense blocks wherever a block has an entry of the matrix. They are square, or column
// vectors: blocks of one column (format column-vectors).
//
// Places of a block without an entry hold 0. As in SciPy's BSR those zeros are multiplied with x in a product. Which
// places hold an entry is stored on the host (`occupied`), so that stored zeros survive a round trip. Entries of a
// row come back in the order of their columns, and repeated ones are added up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "warploom/csr_view.hpp"
#include "warploom/formats/csr.hpp"

namespace warploom {

struct block_shape {
  int rows;
  int cols;

  int places() const { return rows * cols; }
};

inline constexpr block_shape column_vector{8, 1};
inline constexpr block_shape tall_column_vector{16, 1};

struct bsr_matrix {
  std::int64_t num_rows = 0;  // need not be multiples of the block size
  std::int64_t num_cols = 0;
  value_type dtype = value_type::float32;
  block_shape block{4, 4};
  std::int64_t num_entries = 0;         // repeated ones count once
  std::vector<std::int64_t> indptr{0};  // [block rows + 1]
  std::vector<std::int32_t> indices;    // block columns, ascending within a block row
  std::vector<std::byte> data;          // [blocks][block.rows][block.cols], row after row
  std::vector<std::uint64_t> occupied;  // bit i * block.cols + j: place (i, j) of the block holds an entry

  std::int64_t nnz() const { return num_entries; }
  std::int64_t num_block_rows() const { return static_cast<std::int64_t>(indptr.size()) - 1; }
  std::int64_t num_blocks() const { return indptr.back(); }
  std::int64_t places() const { return num_blocks() * block.places(); }
  std::size_t bytes() const;
  std::vector<format_field> fields() const;
};

// Places that to_bsr would store.
std::int64_t bsr_places(const csr_pattern& matrix, block_shape block);
std::int64_t bsr_places(const csr_pattern& matrix, int block_size);

// Whether a row has two entries of one column, which to_bsr would add up.
bool has_repeated_entries(const csr_pattern& matrix);

// Throws error_kind::parameter unless the block size is 2, 4 or 8.
bsr_matrix to_bsr(const csr_view& matrix, int block_size);
// Of at most 64 places a block.
bsr_matrix to_bsr(const csr_view& matrix, block_shape block);
csr_matrix to_csr(const bsr_matrix& matrix);

}  // namespace warploom
