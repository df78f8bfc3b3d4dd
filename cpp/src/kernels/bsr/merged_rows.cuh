// Going through the rows of a block row together, from one block column to the next that any of them has: how matrices
// whose rows are by ascending column become blocks. A thread has a row. Device code only.
#pragma once

#include <cstdint>

#include "kernels/device/warp.cuh"

namespace warploom::cuda {

// Going through a longer row takes longer than sorting.
inline constexpr std::int64_t longest_merged_row = 1024;
inline constexpr int no_column = 0x7fffffff;
inline constexpr int threads_per_merging_block = 256;

// What the host reads of the first pass.
struct merged_sizes {
  std::int32_t num_blocks;
  std::int32_t unsorted;  // some row is not by ascending column; nothing else is valid then
  std::int32_t repeats;
};

struct csr_rows_view {
  unsigned num_rows;
  unsigned num_block_rows;
  unsigned nnz;
  const std::int32_t* indptr;
  const std::int32_t* indices;
};

// Goes through the columns of a row; rows past the last have none. The column after the next is loaded ahead. Nothing
// outside of the arrays is read even if they have changed since they were checked.
class column_reader {
 public:
  __device__ __forceinline__ column_reader(const csr_rows_view& A, unsigned row) : indices_(A.indices) {
    if (row < A.num_rows) {
      at_ = min(static_cast<unsigned>(__ldg(A.indptr + row)), A.nnz);
      end_ = min(static_cast<unsigned>(__ldg(A.indptr + row + 1)), A.nnz);
    }
    column_ = load(at_);
    ahead_ = load(at_ + 1);
  }

  __device__ __forceinline__ unsigned at() const { return at_; }
  __device__ __forceinline__ int column() const { return column_; }
  __device__ __forceinline__ int block_column(int log2_cols) const {
    return column_ == no_column ? no_column : column_ >> log2_cols;
  }
  __device__ __forceinline__ bool is_in(int block_column, int log2_cols) const {
    return column_ != no_column && column_ >> log2_cols == block_column;
  }
  __device__ __forceinline__ void advance() {
    ++at_;
    column_ = ahead_;
    ahead_ = load(at_ + 1);
  }

 private:
  __device__ __forceinline__ int load(unsigned j) const { return j < end_ ? __ldg(indices_ + j) : no_column; }

  const std::int32_t* indices_;
  unsigned at_ = 0;
  unsigned end_ = 0;
  int column_;
  int ahead_;
};

// The lowest block column that a row of the block row is at; no_column: all are past their ends.
template <int Rows>
__device__ __forceinline__ int lowest_block_column(const column_reader& entries, int log2_cols) {
  int lowest = entries.block_column(log2_cols);
#pragma unroll
  for (int offset = Rows / 2; offset > 0; offset /= 2) lowest = min(lowest, exchange(lowest, offset));
  return lowest;
}

// `counts`: the blocks of each block row, as groups of `group` of them, and behind them merged_sizes, zeros before.
template <int Rows>
__global__ void __launch_bounds__(threads_per_merging_block)
    count_blocks_kernel(const csr_rows_view A, int log2_cols, int group, std::int32_t* __restrict__ counts) {
  const unsigned row = blockIdx.x * threads_per_merging_block + threadIdx.x;
  const unsigned block_row = row / Rows;
  column_reader entries(A, row);
  std::int32_t count = 0;
  bool unsorted = false;
  bool repeats = false;
  while (true) {
    const int lowest = lowest_block_column<Rows>(entries, log2_cols);
    if (!any_lane(lowest != no_column)) break;
    if (lowest != no_column) ++count;
    while (entries.is_in(lowest, log2_cols)) {
      const int before = entries.column();
      entries.advance();
      unsorted |= entries.column() < before;
      repeats |= entries.column() == before;
    }
  }
  if (row % Rows == 0 && block_row < A.num_block_rows) counts[block_row] = (count + group - 1) / group;
  auto* const sizes = reinterpret_cast<merged_sizes*>(counts + A.num_block_rows);
  unsorted = any_lane(unsorted);
  repeats = any_lane(repeats);
  if (lane_id() == 0 && unsorted) sizes->unsorted = 1;
  if (lane_id() == 0 && repeats) sizes->repeats = 1;
}

}  // namespace warploom::cuda
