#include "kernels/spmm/segments.hpp"

#include <algorithm>

namespace warploom {

bool redundant_segments(const matrix_summary& matrix, const product_request& request) {
  const int length = request.parameters.at("segment_length");
  const auto by_column = request.parameters.find("by_column");
  const bool orders_pieces = by_column != request.parameters.end() && by_column->second != 0;
  if (matrix.longest_row <= length && (orders_pieces || request.parameters.at("longest_first") == 0)) return true;
  return std::any_of(segment_length.tried.begin(), segment_length.tried.end(),
                     [&](int shorter) { return matrix.longest_row <= shorter && shorter < length; });
}

std::int64_t max_segments(const matrix_summary& matrix, const product_request& request) {
  return matrix.num_rows + matrix.nnz / request.parameters.at("segment_length");
}

}  // namespace warploom
