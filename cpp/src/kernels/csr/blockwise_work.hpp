// What each thread block of the kernel csr/blockwise does (Gao et al. 2024, Listing 1): computed at preparation, so
// that a thread block reads one entry of a table where the listing searches all blocks of the partition.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "warploom/row_partition.hpp"

namespace warploom {

// The kernel's input: threads per row of every block of short rows.
inline constexpr const char* blockwise_input = "block_threads_per_row";

// Four int32, so that a GPU thread reads one with one load.
struct blockwise_work {
  std::int32_t row;     // first row
  std::int32_t end;     // short rows: last row + 1 of the partition's block; a long row: its first nonzero
  std::int32_t stride;  // short rows: rows from one pass of the thread block to its next; a long row: last nonzero + 1
  std::int32_t log2_threads_per_row;  // long_row_work: the whole thread block works on one row
};
constexpr std::int32_t long_row_work = -1;

// `threads_per_row` has one number per block of the partition. Long rows come first: they take longest.
// Needs fewer than 2^31 nonzeros.
std::vector<blockwise_work> distribute_blockwise_work(const row_partition& partition,
                                                      std::span<const std::int64_t> indptr,
                                                      std::span<const int> threads_per_row, int threads_per_block);

}  // namespace warploom
