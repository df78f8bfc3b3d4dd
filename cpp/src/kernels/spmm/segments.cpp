#include "kernels/spmm/segments.hpp"

#include <algorithm>

namespace warploom {

bool redundant_segments(const matrix_summary& matrix, const product_request& request) {
  const int length = request.parameters.at("segment_length");
  if (matrix.longest_row <= length && request.parameters.at("longest_first") == 0) return true;
  return std::any_of(segment_length.tried.begin(), segment_length.tried.end(),
                     [&](int shorter) { return matrix.longest_row <= shorter && shorter < length; });
}

std::int64_t max_segments(const matrix_summary& matrix, const product_request& request) {
  return matrix.num_rows + matrix.nnz / request.parameters.at("segment_length");
}

}  // namespace warploom
