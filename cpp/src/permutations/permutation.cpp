#include "warploom/permutation.hpp"

#include <string>

#include "warploom/error.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

std::shared_ptr<const std::int32_t> permute_on_gpu(const permutation_algorithm& algorithm, const device_csr& matrix,
                                                   const geometry& shape, const device_allocator& allocate) {
  if (algorithm.compute_on_gpu == nullptr) {
    throw error(error_kind::parameter, "name", -1, std::string(algorithm.name) + " is not computed on a GPU");
  }
  if (device_permutation made = algorithm.compute_on_gpu(matrix, shape, allocate)) return made;
  return upload_permutation(algorithm.compute(host_copy(matrix), shape), allocate);
}

void validate_permutation(std::span<const std::int32_t> perm, std::int64_t num_rows) {
  const auto fail = [](std::int64_t position, const std::string& message) {
    throw error(error_kind::parameter, "perm", position, message);
  };
  if (static_cast<std::int64_t>(perm.size()) != num_rows) {
    fail(-1, "perm must have one entry per row (" + std::to_string(num_rows) + "), got " + std::to_string(perm.size()));
  }
  std::vector<bool> seen(num_rows, false);
  for (std::int64_t p = 0; p < num_rows; ++p) {
    const std::int32_t row = perm[p];
    if (row < 0 || row >= num_rows) {
      fail(p, "perm[" + std::to_string(p) + "] = " + std::to_string(row) + " is not a row");
    }
    if (seen[row]) fail(p, "perm[" + std::to_string(p) + "] = " + std::to_string(row) + " occurs twice");
    seen[row] = true;
  }
}

row_permutation invert(std::span<const std::int32_t> perm) {
  row_permutation inverse(perm.size());
  for (std::size_t p = 0; p < perm.size(); ++p) inverse[perm[p]] = static_cast<std::int32_t>(p);
  return inverse;
}

}  // namespace warploom
