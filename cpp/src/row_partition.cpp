#include "warploom/row_partition.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "warploom/error.hpp"
#include "warploom/threads_per_row.hpp"

namespace warploom {
namespace {

void check_given(const row_partition& partition, std::span<const std::int32_t> given) {
  const std::int64_t expected = partition.num_short_blocks();
  const auto size = static_cast<std::int64_t>(given.size());
  if (size != expected) {
    throw error(error_kind::parameter, "block_threads_per_row", -1,
                "block_threads_per_row must have one entry for each of the " + std::to_string(expected) +
                    " short-row blocks, got " + std::to_string(size));
  }
  for (std::int64_t i = 0; i < size; ++i) {
    if (given[i] >= 1 && given[i] <= 32 && std::has_single_bit(static_cast<unsigned>(given[i]))) continue;
    throw error(error_kind::parameter, "block_threads_per_row", i,
                "block_threads_per_row must hold 1, 2, 4, 8, 16 or 32, got " + std::to_string(given[i]));
  }
}

}  // namespace

std::int64_t row_partition::num_short_blocks() const { return std::count(is_long.begin(), is_long.end(), 0); }

row_partition partition_rows(std::span<const std::int64_t> indptr, std::int64_t long_row) {
  if (long_row < 1) {
    throw error(error_kind::parameter, "long_row", -1, "long_row must be at least 1, got " + std::to_string(long_row));
  }
  row_partition result;
  const std::int64_t num_rows = static_cast<std::int64_t>(indptr.size()) - 1;
  const auto is_long = [&](std::int64_t row) { return indptr[row + 1] - indptr[row] >= long_row; };
  for (std::int64_t row = 0; row < num_rows; ++row) {
    if (row + 1 < num_rows && is_long(row + 1) == is_long(row)) continue;
    result.nnz_block.push_back(indptr[row + 1] - indptr[result.row_block.back()]);
    result.is_long.push_back(is_long(row));
    result.row_block.push_back(row + 1);
  }
  return result;
}

std::vector<std::int64_t> share_thread_blocks(const row_partition& partition, std::int64_t total) {
  std::int64_t long_rows = 0;
  std::int64_t short_nnz = 0;
  for (std::int64_t i = 0; i < partition.size(); ++i) {
    (partition.is_long[i] ? long_rows : short_nnz) +=
        partition.is_long[i] ? partition.num_rows(i) : partition.nnz_block[i];
  }
  std::vector<std::int64_t> shares(partition.size());
  for (std::int64_t i = 0; i < partition.size(); ++i) {
    if (partition.is_long[i]) {
      shares[i] = partition.num_rows(i);
    } else {
      const std::int64_t left = std::max<std::int64_t>(total - long_rows, 0);
      shares[i] = short_nnz == 0 ? 1 : std::max<std::int64_t>(partition.nnz_block[i] * left / short_nnz, 1);
    }
  }
  return shares;
}

std::vector<int> threads_per_row_of_blocks(const row_partition& partition, int threads_per_row,
                                           std::span<const std::int32_t> given) {
  if (!given.empty()) check_given(partition, given);
  std::vector<int> threads(partition.size(), 0);
  std::size_t next = 0;
  for (std::int64_t i = 0; i < partition.size(); ++i) {
    if (partition.is_long[i]) continue;
    if (!given.empty()) {
      threads[i] = given[next++];
    } else {
      threads[i] =
          threads_per_row != 0 ? threads_per_row : threads_per_row_mean(partition.num_rows(i), partition.nnz_block[i]);
    }
  }
  return threads;
}

}  // namespace warploom
