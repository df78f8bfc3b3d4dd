// Warp-Aware Sort: the N_w rows of lowest warp load (then lowest index) come first, in that order; then every position
// takes the remaining row nearest to the one N_w positions earlier, which the same warp processes just before. Ties
// go to the lowest original index.
#include <algorithm>
#include <span>

#include "permutations/algorithms.hpp"
#include "permutations/greedy_chain.hpp"
#include "permutations/warp_load.hpp"

namespace warploom {

row_permutation warp_aware_permutation(const csr_pattern& matrix, const geometry& shape) {
  const row_permutation by_load = rows_by_increasing_load(warp_loads(matrix, shape));
  const row_permutation by_index = rows_by_index(matrix.num_rows);
  const auto start = std::span(by_load).first(std::min<std::size_t>(shape.warps, by_load.size()));
  return follow({.start = start, .order = by_index, .lag = shape.warps}, matrix, shape);
}

}  // namespace warploom
