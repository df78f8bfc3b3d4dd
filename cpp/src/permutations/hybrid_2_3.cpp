// Hybrid-2.3: Warp-Aware Sort, ties broken by warp load, then by original index. The paper leaves the direction open:
// the lowest load first, as the start of Warp-Aware Sort does, so that rows taken one after the other, which different
// warps process at the same time, have similar loads.
#include <algorithm>
#include <span>

#include "permutations/algorithms.hpp"
#include "permutations/greedy_chain.hpp"
#include "permutations/warp_load.hpp"

namespace warploom {

row_permutation hybrid_2_3_permutation(const csr_pattern& matrix, const geometry& shape) {
  const row_permutation by_load = rows_by_increasing_load(warp_loads(matrix, shape));
  const auto start = std::span(by_load).first(std::min<std::size_t>(shape.warps, by_load.size()));
  return follow({.start = start, .order = by_load, .lag = shape.warps}, matrix, shape);
}

}  // namespace warploom
