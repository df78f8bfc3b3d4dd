// Hybrid-2.2: CTA-Aware Sort, ties broken by the distance to the row N_w positions earlier, which the same warp
// processes just before, then by original index. The first N_w positions have no such row and go by index alone.
#include <algorithm>
#include <span>

#include "permutations/algorithms.hpp"
#include "permutations/greedy_chain.hpp"
#include "permutations/warp_load.hpp"

namespace warploom {

row_permutation hybrid_2_2_permutation(const csr_pattern& matrix, const geometry& shape) {
  const row_permutation by_load = rows_by_increasing_load(warp_loads(matrix, shape));
  const row_permutation by_index = rows_by_index(matrix.num_rows);
  const auto start = std::span(by_load).first(std::min<std::size_t>(1, by_load.size()));
  return follow({.start = start, .order = by_index, .second_lag = shape.warps}, matrix, shape);
}

}  // namespace warploom
