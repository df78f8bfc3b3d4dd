// Thread blocks of the blockwise kernel visit every row once.
#include "kernels/csr/blockwise_work.hpp"

#include <algorithm>

#include "kernels/csr/row_lengths.hpp"
#include "support.hpp"

namespace warploom {
namespace {

constexpr int threads_per_block = 128;

void check_work(const std::vector<std::int64_t>& indptr, int threads_per_row) {
  const row_partition partition = partition_rows(indptr, 128);
  const std::vector<int> threads = threads_per_row_of_blocks(partition, threads_per_row, {});
  std::vector<int> visits(indptr.size() - 1, 0);
  for (const blockwise_work& work : distribute_blockwise_work(partition, indptr, threads, threads_per_block)) {
    if (work.log2_threads_per_row == long_row_work) {
      ++visits[work.row];
      CHECK((work.end == indptr[work.row] && work.stride == indptr[work.row + 1]));
      CHECK(work.stride - work.end >= 128);
      continue;
    }
    const int rows_per_pass = threads_per_block >> work.log2_threads_per_row;
    int passes = 0;
    for (std::int32_t first = work.row; first < work.end; first += work.stride, ++passes) {
      for (std::int32_t row = first; row < std::min(first + rows_per_pass, work.end); ++row) {
        ++visits[row];
        CHECK(indptr[row + 1] - indptr[row] < 128);
      }
    }
    CHECK((1 <= passes && passes <= 8));
  }
  for (const int count : visits) CHECK(count == 1);
}

}  // namespace

TEST_CASE("distribute_blockwise_work: every row once, in few passes") {
  for (const std::vector<std::int64_t>& indptr : test::many_offsets()) {
    for (const int threads_per_row : {0, 1, 8, 32}) check_work(indptr, threads_per_row);
  }
}

}  // namespace warploom
