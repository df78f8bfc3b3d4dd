// Hybrid-2.1: CTA-Aware Sort, ties broken by warp load, then by original index. The paper leaves the direction open:
// the lowest load first. Equally near rows then come in increasing load, so that the rows of one group of N_w, which
// run at the same time, have similar loads: Plain Sort within the tie.
#include <algorithm>
#include <span>

#include "permutations/algorithms.hpp"
#include "permutations/greedy_chain.hpp"
#include "permutations/warp_load.hpp"

namespace warploom {

row_permutation hybrid_2_1_permutation(const csr_pattern& matrix, const geometry& shape) {
  const row_permutation by_load = rows_by_increasing_load(warp_loads(matrix, shape));
  const auto start = std::span(by_load).first(std::min<std::size_t>(1, by_load.size()));
  return follow({.start = start, .order = by_load}, matrix, shape);
}

}  // namespace warploom
