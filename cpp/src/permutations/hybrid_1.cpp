// Hybrid-1: LPT with its ties broken by locality. Positions are assigned as in LPT (decreasing warp load, to the warp
// with the smallest load so far that has a free position). Among all remaining rows of the load that is due, position p
// takes the one nearest to the adjacent row: that at position p - 1, or at p + 1 where p - 1 is still free; the lowest
// index where both are free. The last tie goes to the lowest original index.
//
// Equal loads leave the loads of the warps as they are in LPT, whichever row is taken: the balance is that of LPT.
#include <algorithm>
#include <span>

#include "permutations/algorithms.hpp"
#include "permutations/nearest_rows.hpp"
#include "permutations/row_masks.hpp"
#include "permutations/warp_load.hpp"

namespace warploom {
namespace {

constexpr std::int32_t vacant = -1;

// The row next to position p, or `vacant`.
std::int32_t adjacent_row(const row_permutation& perm, std::int64_t p) {
  if (p > 0 && perm[p - 1] != vacant) return perm[p - 1];
  if (p + 1 < static_cast<std::int64_t>(perm.size())) return perm[p + 1];
  return vacant;
}

}  // namespace

row_permutation hybrid_1_permutation(const csr_pattern& matrix, const geometry& shape) {
  const std::vector<std::int64_t> loads = warp_loads(matrix, shape);
  const row_permutation by_load = rows_by_decreasing_load(loads);
  const row_masks masks = make_row_masks(matrix, shape);
  lpt_positions positions(matrix.num_rows, shape.warps);
  nearest_rows pool(masks);
  row_permutation perm(matrix.num_rows, vacant);

  for (auto first = by_load.begin(); first != by_load.end();) {
    const std::int64_t load = loads[*first];
    const auto last = std::find_if(first, by_load.end(), [&](auto row) { return loads[row] != load; });
    pool.fill(std::span(first, last));
    while (!pool.empty()) {
      const std::int64_t p = positions.place(load);
      const std::int32_t adjacent = adjacent_row(perm, p);
      perm[p] = adjacent == vacant ? pool.take_first() : pool.take_nearest(adjacent);
    }
    first = last;
  }
  return perm;
}

}  // namespace warploom
