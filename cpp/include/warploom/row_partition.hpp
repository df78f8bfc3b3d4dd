// Consecutive rows of similar length in blocks, and thread blocks for them (Gao et al. 2024, Sec. 4).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace warploom {

// Block i holds the rows row_block[i] .. row_block[i+1]. Long-row and short-row blocks alternate.
struct row_partition {
  std::vector<std::int64_t> row_block{0};
  std::vector<std::int64_t> nnz_block;
  std::vector<std::uint8_t> is_long;  // one entry per block, where the paper has the bits of an integer

  std::int64_t size() const { return static_cast<std::int64_t>(nnz_block.size()); }
  std::int64_t num_rows(std::int64_t block) const { return row_block[block + 1] - row_block[block]; }
  std::int64_t num_short_blocks() const;
};

// Algorithm 1: a row is long from `long_row` nonzeros on (T_LONG). Without rows there are no blocks.
// Throws error_kind::parameter if `long_row` is less than 1.
row_partition partition_rows(std::span<const std::int64_t> indptr, std::int64_t long_row);

// Thread blocks for each block: one per row of a long-row block, and for a short-row block the part of `total` that
// equation (3) gives it, in proportion to its nonzeros and at least 1.
std::vector<std::int64_t> share_thread_blocks(const row_partition& partition, std::int64_t total);

// Threads per row of every block of `partition`, 0 for long-row blocks. `threads_per_row` is for all short-row
// blocks, where 0 means threads_per_row_mean of each; `given`, unless empty, has one number for each short-row block
// and takes precedence. Throws error_kind::parameter for `block_threads_per_row` if `given` has another size or a
// number that is not a power of two up to 32.
std::vector<int> threads_per_row_of_blocks(const row_partition& partition, int threads_per_row,
                                           std::span<const std::int32_t> given);

}  // namespace warploom
