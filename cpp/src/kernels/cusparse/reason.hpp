// What cuSPARSE refuses, whatever the format.
#pragma once

#include "kernels/description.hpp"
#include "warploom/cusparse.hpp"

namespace warploom {

inline std::string cusparse_reason(const matrix_summary& matrix, const product_request& request) {
  if (cusparse_version().empty()) return "needs cuSPARSE, which was not found";
  if (!request.perm.empty()) return "does not take a row permutation";
  if (matrix.nnz == 0) return "takes no matrix without nonzeros";
  // Duplicates may be more than there are places.
  if (matrix.nnz / matrix.num_cols >= matrix.num_rows && matrix.nnz > matrix.num_rows * matrix.num_cols) {
    return "takes at most rows x columns nonzeros";
  }
  return needs_int32_offsets(matrix, request);
}

}  // namespace warploom
