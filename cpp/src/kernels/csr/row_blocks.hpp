// The row blocks of CSR-adaptive (Greathouse and Daga 2014): consecutive rows with about equal numbers of nonzeros, one
// block of them for each thread block, and segments of rows that are too long for one thread block.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace warploom {

// Four int32, so that a GPU thread reads one with one load.
struct row_block {
  std::int32_t row;     // first row; of a segment: index into cut_rows
  std::int32_t begin;   // first nonzero
  std::int32_t length;  // nonzeros
  std::int32_t shape;   // num_rows * 8 + log2(threads that sum a row); of a segment: -1 - its partial sum

  bool is_segment() const { return shape < 0; }
  int num_rows() const { return shape >> 3; }
  int log2_threads_per_row() const { return shape & 7; }
  std::int32_t partial() const { return -1 - shape; }
};

// Row `row` is the sum of the partial sums first_partial .. first_partial + count.
struct cut_row_sums {
  std::int32_t row;
  std::int32_t first_partial;
  std::int32_t count;
  std::int32_t unused = 0;  // four int32, likewise
};

struct row_blocks {
  std::vector<row_block> blocks;
  std::vector<cut_row_sums> cut_rows;
  std::int64_t num_partials = 0;
};

// Maximum number of rows of a block, so that many empty rows do not end up in one.
constexpr int max_rows_per_block(int nnz_per_block, int threads_per_block) {
  return std::min(nnz_per_block, 8 * threads_per_block);
}

// Blocks of several rows hold at most `nnz_per_block` nonzeros. A block of one row holds up to twice as many, and
// longer rows are cut. Needs fewer than 2^31 nonzeros.
row_blocks make_row_blocks(std::span<const std::int64_t> indptr, int nnz_per_block, int threads_per_block);

}  // namespace warploom
