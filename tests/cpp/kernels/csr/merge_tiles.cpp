// Tiles of the merge path take every row end and nonzero once, are no larger than asked, and know what they cut.
#include "kernels/csr/merge_tiles.hpp"

#include "kernels/csr/row_lengths.hpp"
#include "support.hpp"

namespace warploom {
namespace {

void check_path(const std::vector<std::int64_t>& indptr, const std::vector<merge_tile>& tiles, int size) {
  std::int32_t row = 0;
  std::int32_t nonzero = 0;
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    const merge_tile& tile = tiles[t];
    REQUIRE((tile.row == row && tile.begin == nonzero));
    const int items = tile.end_row - tile.row + tile.end - tile.begin;
    CHECK((0 < items && items <= size));
    if (t + 1 < tiles.size()) CHECK(items > size / 2);  // stopping before a row costs a quarter at most
    // Rows end after all of their nonzeros, and none of the rows after that have begun but for the one it stops in.
    CHECK(indptr[tile.end_row] <= tile.end);
    if (tile.end_row + 1 < static_cast<std::int64_t>(indptr.size())) CHECK(tile.end <= indptr[tile.end_row + 1]);
    row = tile.end_row;
    nonzero = tile.end;
  }
  CHECK(row == static_cast<std::int64_t>(indptr.size()) - 1);
  CHECK(nonzero == indptr.back());
}

// The tiles of every row, found row by row.
void check_cuts(const std::vector<std::int64_t>& indptr, const merge_tiles& made) {
  const auto num_tiles = static_cast<std::int32_t>(made.tiles.size());
  std::vector<merge_cuts> expected(num_tiles, {-1, -1});
  bool any = false;
  for (std::size_t row = 0; row + 1 < indptr.size(); ++row) {
    std::int32_t first = -1;
    std::int32_t last = -1;
    for (std::int32_t t = 0; t < num_tiles; ++t) {
      const merge_tile& tile = made.tiles[t];
      const bool ends = tile.row <= static_cast<std::int64_t>(row) && static_cast<std::int64_t>(row) < tile.end_row;
      const bool holds = tile.begin < indptr[row + 1] && indptr[row] < tile.end;
      if (first < 0 && (ends || holds)) first = t;
      if (ends) last = t;
    }
    for (std::int32_t t = first; t < last; ++t) {
      any = true;
      expected[t].tail_last = last;
      expected[t + 1].head_first = first;
    }
  }
  REQUIRE(made.cuts.size() == (any ? made.tiles.size() : 0));
  for (std::size_t t = 0; t < made.cuts.size(); ++t) {
    CHECK(made.cuts[t].head_first == expected[t].head_first);
    CHECK(made.cuts[t].tail_last == expected[t].tail_last);
  }
}

}  // namespace

TEST_CASE("make_merge_tiles: every row end and nonzero once, and the cuts between tiles") {
  for (const std::vector<std::int64_t>& indptr : test::many_offsets()) {
    for (const int size : {256, 1024, 2048}) {
      const merge_tiles made = make_merge_tiles(indptr, size);
      check_path(indptr, made.tiles, size);
      check_cuts(indptr, made);
    }
  }
}

TEST_CASE("make_merge_tiles: short rows are not cut") {
  CHECK(make_merge_tiles(test::offsets_of(std::vector<std::int64_t>(100, 64)), 256).cuts.empty());
  CHECK(!make_merge_tiles(test::offsets_of(std::vector<std::int64_t>(100, 100)), 256).cuts.empty());
}

}  // namespace warploom
