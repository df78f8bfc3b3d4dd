#include <vector>

#include "warploom/kernels/product.hpp"

namespace warploom {
namespace {

std::int64_t count_referenced_columns(const csr_pattern& matrix) {
  std::vector<bool> referenced(matrix.num_cols, false);
  std::int64_t count = 0;
  for (std::int64_t j = 0; j < matrix.nnz(); ++j) {
    if (referenced[matrix.indices[j]]) continue;
    referenced[matrix.indices[j]] = true;
    ++count;
  }
  return count;
}

}  // namespace

std::int64_t product_floor_bytes(const csr_pattern& matrix, std::int64_t k, value_type dtype) {
  constexpr std::int64_t index = 4;  // bytes of a column index and of a row offset on the device
  const auto value = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t A = matrix.nnz() * (index + value) + (matrix.num_rows + 1) * index;
  const std::int64_t B = count_referenced_columns(matrix) * k * value;
  const std::int64_t C = matrix.num_rows * k * value;
  return A + B + C;
}

}  // namespace warploom
