#include "kernels/csr/stored_offsets.hpp"

namespace warploom {

std::vector<std::int64_t> stored_offsets(const csr_pattern& matrix, std::span<const std::int32_t> perm) {
  if (perm.empty()) return {matrix.indptr, matrix.indptr + matrix.num_rows + 1};
  std::vector<std::int64_t> offsets{0};
  offsets.reserve(matrix.num_rows + 1);
  for (const std::int32_t row : perm) offsets.push_back(offsets.back() + matrix.row_length(row));
  return offsets;
}

}  // namespace warploom
