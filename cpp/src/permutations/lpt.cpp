// Longest Processing Time Sort. Rows in decreasing warp load; each goes to the warp with the smallest load so far.
// A permutation fixes how many rows a warp gets (warp w owns the positions w, w + N_w, ...), which the paper does not
// mention: a warp whose positions are full takes no further row, so the greedy choice is among the others.
#include "permutations/algorithms.hpp"
#include "permutations/warp_load.hpp"

namespace warploom {

row_permutation lpt_permutation(const csr_pattern& matrix, const geometry& shape) {
  const std::vector<std::int64_t> loads = warp_loads(matrix, shape);
  lpt_positions positions(matrix.num_rows, shape.warps);
  row_permutation perm(matrix.num_rows);
  for (const std::int32_t row : rows_by_decreasing_load(loads)) perm[positions.place(loads[row])] = row;
  return perm;
}

}  // namespace warploom
