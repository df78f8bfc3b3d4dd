// SpMV kernels that read ELL.
#include "warploom/formats/ell.hpp"

#include <limits>

#include "kernels/cpu/spmv/prepare.hpp"
#include "kernels/cuda/spmv/prepare.hpp"
#include "kernels/spmv/kernels.hpp"

namespace warploom {
namespace {

// Slices of the kernel are padded to their full height.
constexpr std::int64_t most_places = std::numeric_limits<std::int32_t>::max();

std::string ell_reason(const csr_view& matrix, const product_request& request) {
  if (!request.perm.empty()) return "does not take a row permutation";
  const std::int64_t width = longest_row(matrix);
  const std::int64_t places = width * matrix.num_rows;
  const std::string reason = spmv_padding_reason(places, matrix.nnz());
  if (!reason.empty()) return reason;
  return width * (matrix.num_rows + 31) > most_places ? "needs fewer than 2^31 places" : "";
}

}  // namespace

product_kernel ell_vector() {
  return {
      .name = "vector",
      .format = "ell",
      .summary = "ELL of Bell and Garland 2009 with threads_per_row threads for each row; it reads no row offsets.",
      .layouts = {layout::column_major},
      .parameters = {{"threads_per_row", 1, {1, 2, 4, 8}, {1, 2, 4, 8}, false, "threads that share a row"}},
      .dtypes = all_value_types,
      .permutes = false,
      .unsupported_reason = ell_reason,
      .prepare_cpu = prepare_cpu_ell,
      .prepare_cuda = prepare_cuda_ell_vector,
  };
}

}  // namespace warploom
