// The threads per row that a caller gives for the blocks of a partition are checked; Python tests the partition itself.
#include "warploom/row_partition.hpp"

#include <cstdint>
#include <vector>

#include "support.hpp"

namespace warploom {
namespace {

// Two short rows of 1 and 4 nonzeros, a long row, a short row of 8, a long row.
const std::vector<std::int64_t> indptr{0, 1, 5, 105, 113, 213};

error error_for(const std::vector<std::int32_t>& given) {
  const row_partition partition = partition_rows(indptr, 100);
  return test::error_of([&] { threads_per_row_of_blocks(partition, 0, given); });
}

}  // namespace

TEST_CASE("threads_per_row_of_blocks: the formula, one number for all, or one for each short-row block") {
  const row_partition partition = partition_rows(indptr, 100);
  REQUIRE(partition.is_long == std::vector<std::uint8_t>{0, 1, 0, 1});
  CHECK(threads_per_row_of_blocks(partition, 0, {}) == std::vector<int>{4, 0, 8, 0});
  CHECK(threads_per_row_of_blocks(partition, 16, {}) == std::vector<int>{16, 0, 16, 0});
  CHECK(threads_per_row_of_blocks(partition, 16, std::vector<std::int32_t>{1, 32}) == std::vector<int>{1, 0, 32, 0});
}

TEST_CASE("threads_per_row_of_blocks: names what is wrong") {
  for (const std::vector<std::int32_t>& wrong_size : {std::vector<std::int32_t>{2}, {2, 2, 2}}) {
    const error e = error_for(wrong_size);
    CHECK(e.kind() == error_kind::parameter);
    CHECK(e.argument() == "block_threads_per_row");
    CHECK(e.position() == -1);
  }
  for (const std::int32_t wrong : {0, -2, 3, 64}) {
    const error e = error_for({2, wrong});
    CHECK(e.kind() == error_kind::parameter);
    CHECK(e.argument() == "block_threads_per_row");
    CHECK(e.position() == 1);
  }
}

}  // namespace warploom
