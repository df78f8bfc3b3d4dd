#include "kernels/csr/blockwise_work.hpp"

#include <algorithm>
#include <bit>

namespace warploom {
namespace {

// Equation (3) counts nonzeros only and would leave a million empty rows to one thread block.
constexpr std::int64_t max_passes = 8;

// Thread blocks that handle every row of a short-row block in one pass.
std::int64_t one_pass(std::int64_t num_rows, std::int64_t threads_per_row, std::int64_t threads_per_block) {
  return (num_rows * threads_per_row + threads_per_block - 1) / threads_per_block;
}

void append_long_rows(std::vector<blockwise_work>& work, std::int64_t first, std::int64_t end,
                      std::span<const std::int64_t> indptr) {
  for (std::int64_t row = first; row < end; ++row) {
    work.push_back({static_cast<std::int32_t>(row), static_cast<std::int32_t>(indptr[row]),
                    static_cast<std::int32_t>(indptr[row + 1]), long_row_work});
  }
}

void append_short_rows(std::vector<blockwise_work>& work, std::int64_t first, std::int64_t end,
                       std::int64_t thread_blocks, int threads_per_row, int threads_per_block) {
  const std::int64_t rows_per_pass = threads_per_block / threads_per_row;
  const int log2_threads = std::countr_zero(static_cast<unsigned>(threads_per_row));
  for (std::int64_t b = 0; b < thread_blocks; ++b) {
    work.push_back({static_cast<std::int32_t>(first + b * rows_per_pass), static_cast<std::int32_t>(end),
                    static_cast<std::int32_t>(thread_blocks * rows_per_pass), log2_threads});
  }
}

}  // namespace

std::vector<blockwise_work> distribute_blockwise_work(const row_partition& partition,
                                                      std::span<const std::int64_t> indptr,
                                                      std::span<const int> threads_per_row, int threads_per_block) {
  // N_BLKS: as many thread blocks as handle every row in one pass.
  std::vector<std::int64_t> enough(partition.size());
  std::int64_t total = 0;
  for (std::int64_t i = 0; i < partition.size(); ++i) {
    enough[i] = partition.is_long[i] ? partition.num_rows(i)
                                     : one_pass(partition.num_rows(i), threads_per_row[i], threads_per_block);
    total += enough[i];
  }
  const std::vector<std::int64_t> shares = share_thread_blocks(partition, total);
  std::vector<blockwise_work> work;
  work.reserve(total);
  for (std::int64_t i = 0; i < partition.size(); ++i) {
    if (partition.is_long[i]) append_long_rows(work, partition.row_block[i], partition.row_block[i + 1], indptr);
  }
  for (std::int64_t i = 0; i < partition.size(); ++i) {
    if (partition.is_long[i]) continue;
    const std::int64_t least = (enough[i] + max_passes - 1) / max_passes;
    append_short_rows(work, partition.row_block[i], partition.row_block[i + 1], std::clamp(shares[i], least, enough[i]),
                      threads_per_row[i], threads_per_block);
  }
  return work;
}

}  // namespace warploom
