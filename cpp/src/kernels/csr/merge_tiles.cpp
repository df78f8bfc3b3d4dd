#include "kernels/csr/merge_tiles.hpp"

#include <algorithm>

namespace warploom {
namespace {

// A point on the merge path: `row` rows have ended and `nonzero` nonzeros are consumed.
struct position {
  std::int64_t row;
  std::int64_t nonzero;
};

// Where the path crosses a diagonal: the end of row i is item indptr[i + 1] + i of the merged sequence. `low` is a
// lower bound for the row.
position search_diagonal(std::span<const std::int64_t> indptr, std::int64_t diagonal, std::int64_t low) {
  std::int64_t high = static_cast<std::int64_t>(indptr.size()) - 1;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (indptr[middle + 1] + middle < diagonal) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return {low, diagonal - low};
}

std::vector<merge_tile> cut_path(std::span<const std::int64_t> indptr, std::int64_t size) {
  const std::int64_t num_rows = static_cast<std::int64_t>(indptr.size()) - 1;
  const std::int64_t items = num_rows + indptr[num_rows];
  std::vector<merge_tile> tiles;
  for (position at{0, 0}; at.row + at.nonzero < items;) {
    position next{num_rows, indptr[num_rows]};
    if (at.row + at.nonzero + size < items) {
      next = search_diagonal(indptr, at.row + at.nonzero + size, at.row);
      if (indptr[next.row + 1] - indptr[next.row] <= size / 4) next.nonzero = indptr[next.row];
    }
    tiles.push_back({static_cast<std::int32_t>(at.row), static_cast<std::int32_t>(next.row),
                     static_cast<std::int32_t>(at.nonzero), static_cast<std::int32_t>(next.nonzero)});
    at = next;
  }
  return tiles;
}

std::vector<merge_cuts> find_cuts(std::span<const std::int64_t> indptr, const std::vector<merge_tile>& tiles) {
  std::vector<merge_cuts> cuts(tiles.size(), {-1, -1});
  bool any = false;
  std::int32_t first = -1;  // first tile of the row that the previous tile stops in
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    cuts[t].head_first = first;
    if (tiles[t].end == indptr[tiles[t].end_row]) {  // stops between rows
      first = -1;
    } else if (first < 0 || tiles[t].end_row > tiles[t].row) {
      first = static_cast<std::int32_t>(t);
      any = true;
    }
  }
  if (!any) return {};
  std::int32_t last = -1;
  for (std::size_t t = tiles.size(); t-- > 0;) {
    cuts[t].tail_last = last;
    if (cuts[t].head_first < 0) {
      last = -1;
    } else if (tiles[t].end_row > tiles[t].row) {
      last = static_cast<std::int32_t>(t);
    }
  }
  return cuts;
}

}  // namespace

merge_tiles make_merge_tiles(std::span<const std::int64_t> indptr, int size) {
  merge_tiles result;
  result.tiles = cut_path(indptr, size);
  result.cuts = find_cuts(indptr, result.tiles);
  return result;
}

}  // namespace warploom
