// The vendor's SpMV on the formats it knows: measured baselines, and candidates like any other.
#include "warploom/cusparse.hpp"

#include "kernels/cuda/spmv/prepare.hpp"
#include "kernels/spmv/kernels.hpp"

namespace warploom {
namespace {

std::string cusparse_reason(const csr_view& matrix, const product_request& request) {
  if (cusparse_version().empty()) return "needs cuSPARSE, which was not found";
  if (!request.perm.empty()) return "does not take a row permutation";
  return spmv_needs_int32_offsets(matrix, request);
}

product_kernel on_cusparse(std::string format, std::string summary, std::vector<parameter> parameters) {
  return {
      .name = "cusparse",
      .format = std::move(format),
      .summary = std::move(summary),
      .layouts = {layout::column_major},
      .parameters = std::move(parameters),
      .dtypes = all_value_types,
      .permutes = false,
      .reproducible = false,
      .on_cpu = false,
      .unsupported_reason = cusparse_reason,
      .prepare_cpu = nullptr,
      .prepare_cuda = nullptr,
  };
}

}  // namespace

product_kernel csr_cusparse() {
  auto kernel = on_cusparse(
      "csr", "The vendor's library on CSR, preprocessed.",
      {{"algorithm", 0, {0, 1, 2}, {0, 1, 2}, false, "0: the library's default; n: CUSPARSE_SPMV_CSR_ALGn"}});
  kernel.from_device = true;
  kernel.prepare_cuda = prepare_cuda_csr_cusparse;
  return kernel;
}

product_kernel coo_cusparse() {
  auto kernel =
      on_cusparse("coo", "The vendor's library on COO, preprocessed.",
                  {{"algorithm", 0, {0, 1, 2}, {1, 2}, false, "0: the library's default; n: CUSPARSE_SPMV_COO_ALGn"}});
  kernel.from_device = true;
  kernel.prepare_cuda = prepare_cuda_coo_cusparse;
  return kernel;
}

}  // namespace warploom
