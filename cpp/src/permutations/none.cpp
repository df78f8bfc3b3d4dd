#include <numeric>

#include "permutations/algorithms.hpp"

namespace warploom {

row_permutation none_permutation(const csr_pattern& matrix, const geometry&) {
  row_permutation perm(matrix.num_rows);
  std::iota(perm.begin(), perm.end(), 0);
  return perm;
}

}  // namespace warploom
