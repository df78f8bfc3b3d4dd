// What cuSPARSE refuses, whatever the format.
#pragma once

#include "kernels/description.hpp"
#include "warploom/cusparse.hpp"

namespace warploom {

inline std::string cusparse_reason(const matrix_summary& matrix, const product_request& request) {
  if (cusparse_version().empty()) return "needs cuSPARSE, which was not found";
  if (!request.perm.empty()) return "does not take a row permutation";
  // Repeated columns are allowed, but not more entries than places.
  if (matrix.nnz > matrix.num_rows * matrix.num_cols)
    return "cuSPARSE takes no more entries than the matrix has places";
  return needs_int32_offsets(matrix, request);
}

}  // namespace warploom
