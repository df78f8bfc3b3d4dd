#include "kernels/description.hpp"

#include <algorithm>
#include <limits>

#include "warploom/error.hpp"

namespace warploom {

std::string no_reason(const matrix_summary&, const product_request&) { return ""; }

std::string needs_int32_offsets(const matrix_summary& matrix, const product_request&) {
  return matrix.nnz > std::numeric_limits<std::int32_t>::max() ? "needs fewer than 2^31 nonzeros" : "";
}

std::string padding_reason(std::int64_t places, std::int64_t nnz, int times) {
  if (places <= times * (4 * nnz + 4096)) return "";
  return "would store " + std::to_string(places) + " entries for " + std::to_string(nnz) + " nonzeros";
}

void refuse_candidate(const std::string& kernel, const std::string& reason) {
  if (!reason.empty()) throw error(error_kind::parameter, "candidate", -1, kernel + " " + reason);
}

bool too_many_threads_per_row(const matrix_summary& matrix, const product_request& request) {
  const int threads = request.parameters.at("threads_per_row");
  return threads / 2 >= std::max<std::int64_t>(matrix.longest_row, 1);
}

}  // namespace warploom
