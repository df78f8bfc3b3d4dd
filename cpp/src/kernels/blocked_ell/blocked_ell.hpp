// Blocked ELL, as cuSPARSE has it: square dense blocks wherever a block has an entry of the matrix, and in every row of
// blocks as many as the longest has.
//
// The values are one dense array of all rows, side by side those of the blocks of a row. Places without an entry hold 0
// and are multiplied. Which places hold one is stored on the host (`occupied`), so that stored zeros survive a round
// trip. Entries of a row come back in the order of their columns, and repeated ones are added up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "warploom/csr_view.hpp"
#include "warploom/formats/csr.hpp"

namespace warploom {

struct blocked_ell {
  std::int64_t num_rows = 0;  // need not be multiples of the block size
  std::int64_t num_cols = 0;
  value_type dtype = value_type::float32;
  int block_size = 16;
  std::int64_t width = 0;  // blocks of a row of blocks
  std::int64_t num_entries = 0;
  std::vector<std::int32_t> indices;    // [rows of blocks][width]: block columns, ascending; then -1
  std::vector<std::byte> data;          // [rows of blocks * block_size][width * block_size]
  std::vector<std::uint32_t> occupied;  // [rows of blocks * block_size][width]: bit j: column j of the block

  std::int64_t nnz() const { return num_entries; }
  std::int64_t num_block_rows() const { return (num_rows + block_size - 1) / block_size; }
  std::int64_t places() const { return num_block_rows() * block_size * width * block_size; }
  std::size_t bytes() const;
  std::vector<format_field> fields() const;
};

// Places that to_blocked_ell would store.
std::int64_t blocked_ell_places(const csr_pattern& matrix, int block_size);

// Throws error_kind::parameter unless the block size is 8, 16 or 32.
blocked_ell to_blocked_ell(const csr_view& matrix, int block_size);
csr_matrix to_csr(const blocked_ell& matrix);

}  // namespace warploom
