// SpMV on rows padded to one length.
#include "warploom/formats/padded_csr.hpp"

#include "kernels/cpu/spmv/prepare.hpp"
#include "kernels/cuda/spmv/prepare.hpp"
#include "kernels/spmv/kernels.hpp"

namespace warploom {
namespace {

std::string padding_reason(const csr_view& matrix, const product_request& request) {
  const std::int64_t threads = matrix.num_rows * request.parameters.at("threads_per_row");
  if (threads >= std::int64_t{1} << 32) return "would need " + std::to_string(threads) + " threads";
  return spmv_padding_reason(padded_width(matrix) * matrix.num_rows, matrix.nnz());
}

}  // namespace

product_kernel padded_csr_vector() {
  return {
      .name = "vector",
      .format = "padded-csr",
      .summary = "csr/vector over rows padded to one length, which are found without reading row offsets.",
      .layouts = {layout::column_major},
      .parameters = {{"threads_per_row", 2, {1, 2, 4, 8, 16, 32}, {1, 2, 4, 8, 16}, false, "threads that share a row"}},
      .dtypes = all_value_types,
      .unsupported_reason = padding_reason,
      .prepare_cpu = prepare_cpu_padded_csr,
      .prepare_cuda = prepare_cuda_padded_csr_vector,
  };
}

}  // namespace warploom
