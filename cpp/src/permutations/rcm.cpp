// Reverse Cuthill-McKee: Cuthill and McKee, "Reducing the bandwidth of sparse symmetric matrices" (1969), reversed as
// by George (1971). On the pattern of A + A^T for square matrices; for others on the bipartite graph of rows and
// columns, from whose order the columns are left out. The degree of a node is the number of entries of its row and
// column.
#include <algorithm>

#include "permutations/algorithms.hpp"
#include "permutations/cuthill_mckee.hpp"
#include "permutations/pattern_graph.hpp"

namespace warploom {

row_permutation rcm_permutation(const csr_pattern& matrix, const geometry&) {
  const pattern_graph graph(matrix);
  row_permutation perm = cuthill_mckee_order(graph);
  if (graph.is_bipartite()) std::erase_if(perm, [&](std::int32_t node) { return node >= graph.num_rows(); });
  std::reverse(perm.begin(), perm.end());
  return perm;
}

}  // namespace warploom
