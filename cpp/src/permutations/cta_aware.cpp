// CTA-Aware Sort: every position takes the remaining row nearest to the row just before it, which the neighbouring
// warp processes at the same time. Ties go to the lowest original index. The paper does not say which row comes first:
// the one of lowest warp load, then lowest index, as in Warp-Aware Sort.
#include <algorithm>
#include <span>

#include "permutations/algorithms.hpp"
#include "permutations/greedy_chain.hpp"
#include "permutations/warp_load.hpp"

namespace warploom {

row_permutation cta_aware_permutation(const csr_pattern& matrix, const geometry& shape) {
  const row_permutation by_load = rows_by_increasing_load(warp_loads(matrix, shape));
  const row_permutation by_index = rows_by_index(matrix.num_rows);
  const auto start = std::span(by_load).first(std::min<std::size_t>(1, by_load.size()));
  return follow({.start = start, .order = by_index}, matrix, shape);
}

}  // namespace warploom
