// Row blocks take every row and nonzero once and keep to the sizes that the kernel has room for.
#include "kernels/csr/row_blocks.hpp"

#include "kernels/csr/row_lengths.hpp"
#include "support.hpp"

namespace warploom {
namespace {

// Checks the block of whole rows that starts with `row`; returns the row after it.
std::int64_t check_rows(const row_block& block, std::int64_t row, const std::vector<std::int64_t>& indptr,
                        int nnz_per_block, int threads) {
  REQUIRE(block.row == row);
  REQUIRE(block.num_rows() >= 1);
  const std::int64_t end = row + block.num_rows();
  CHECK(block.begin == indptr[row]);
  CHECK(block.length == indptr[end] - indptr[row]);
  CHECK(block.length <= (block.num_rows() > 1 ? nnz_per_block : 2 * nnz_per_block));
  CHECK(block.num_rows() <= max_rows_per_block(nnz_per_block, threads));
  CHECK(block.log2_threads_per_row() <= 5);
  return end;
}

void check_row_blocks(const std::vector<std::int64_t>& indptr, int nnz_per_block, int threads) {
  const row_blocks made = make_row_blocks(indptr, nnz_per_block, threads);
  std::int64_t row = 0;
  std::int64_t nonzero = 0;
  std::int32_t partials = 0;
  std::size_t cut_rows = 0;
  for (const row_block& block : made.blocks) {
    CHECK(block.begin == nonzero);
    nonzero += block.length;
    if (!block.is_segment()) {
      row = check_rows(block, row, indptr, nnz_per_block, threads);
      continue;
    }
    REQUIRE(block.row == static_cast<std::int32_t>(cut_rows));
    CHECK((0 < block.length && block.length <= nnz_per_block));
    CHECK(block.partial() == partials++);
    const cut_row_sums& cut = made.cut_rows.at(cut_rows);
    CHECK((cut.row == row && cut.first_partial <= block.partial() && partials <= cut.first_partial + cut.count));
    if (nonzero < indptr[row + 1]) continue;
    CHECK(partials == cut.first_partial + cut.count);
    ++cut_rows;
    ++row;
  }
  CHECK(row == static_cast<std::int64_t>(indptr.size()) - 1);
  CHECK(nonzero == indptr.back());
  CHECK(partials == made.num_partials);
  CHECK(cut_rows == made.cut_rows.size());
}

}  // namespace

TEST_CASE("make_row_blocks: every row and nonzero once, within the sizes") {
  for (const std::vector<std::int64_t>& indptr : test::many_offsets()) {
    check_row_blocks(indptr, 256, 128);
    check_row_blocks(indptr, 1024, 128);
    check_row_blocks(indptr, 4096, 256);
  }
}

TEST_CASE("make_row_blocks: a long row among short ones gets many threads, short rows alone get one") {
  CHECK(make_row_blocks(test::offsets_of(std::vector<std::int64_t>(128, 8)), 1024, 128).blocks[0].shape == 128 * 8);
  std::vector<std::int64_t> skewed(100, 1);
  skewed[50] = 900;
  CHECK(make_row_blocks(test::offsets_of(skewed), 1024, 128).blocks[0].log2_threads_per_row() >= 3);
}

}  // namespace warploom
