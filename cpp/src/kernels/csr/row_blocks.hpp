// The row blocks of CSR-adaptive (Greathouse and Daga 2014): consecutive rows with about equal numbers of nonzeros, one
// block of them for each thread block, and segments of rows that are too long for one thread block.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#ifdef __CUDACC__
#define WARPLOOM_ROW_BLOCKS_FUNCTION __host__ __device__
#else
#define WARPLOOM_ROW_BLOCKS_FUNCTION
#endif

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

// Rows of more nonzeros are cut.
WARPLOOM_ROW_BLOCKS_FUNCTION constexpr std::int64_t longest_uncut_row(int nnz_per_block) {
  return std::int64_t{2} * nnz_per_block;
}

// How many nonzeros the segments of a cut row have, all but the last: about equally many each.
WARPLOOM_ROW_BLOCKS_FUNCTION constexpr std::int64_t segment_length(std::int64_t length, std::int64_t nnz_per_block) {
  const std::int64_t segments = (length + nnz_per_block - 1) / nnz_per_block;
  return (length + segments - 1) / segments;
}

// How many threads (as a power of two) should sum a row of a block. More threads shorten the longest row but fit
// fewer rows into one pass of the thread block; a pass costs its steps and about two more.
WARPLOOM_ROW_BLOCKS_FUNCTION constexpr int log2_threads_per_row(int num_rows, int longest, int threads_per_block) {
  int best = 0;
  int least = 0x7fffffff;
  for (int bits = 0; bits <= 5; ++bits) {
    const int passes = ((num_rows << bits) + threads_per_block - 1) / threads_per_block;
    const int cost = ((longest - 1) >> bits) + 1 + passes * (2 + bits);
    if (cost >= least) continue;
    least = cost;
    best = bits;
  }
  return best;
}

// Blocks of several rows hold at most `nnz_per_block` nonzeros. A block of one row holds up to twice as many, and
// longer rows are cut. Needs fewer than 2^31 nonzeros.
row_blocks make_row_blocks(std::span<const std::int64_t> indptr, int nnz_per_block, int threads_per_block);

// The same, made on the current device, where the matrix is. Only builds with CUDA have it.
class device_csr;
row_blocks row_blocks_on_gpu(const device_csr& matrix, int nnz_per_block, int threads_per_block);

}  // namespace warploom
