// Plain Sort. The paper does not say in which direction; decreasing, so that the long rows start first and the short
// ones fill the end, as in LPT.
#include "permutations/algorithms.hpp"
#include "permutations/warp_load.hpp"

namespace warploom {

row_permutation plain_permutation(const csr_pattern& matrix, const geometry& shape) {
  return rows_by_decreasing_load(warp_loads(matrix, shape));
}

}  // namespace warploom
