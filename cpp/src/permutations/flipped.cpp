// Flipped Sort: Plain Sort with every second group of N_w rows reversed, so that no warp always gets the largest row
// of its group. A last group of fewer rows is reversed within itself.
#include <algorithm>

#include "permutations/algorithms.hpp"
#include "permutations/warp_load.hpp"

namespace warploom {

row_permutation flipped_permutation(const csr_pattern& matrix, const geometry& shape) {
  row_permutation perm = rows_by_decreasing_load(warp_loads(matrix, shape));
  const std::int64_t group = shape.warps;
  for (std::int64_t first = group; first < matrix.num_rows; first += 2 * group) {
    std::reverse(perm.begin() + first, perm.begin() + std::min(matrix.num_rows, first + group));
  }
  return perm;
}

}  // namespace warploom
