// The vendor's SpMM: measured baselines, and candidates like any other.
#include "kernels/cusparse/reason.hpp"
#include "kernels/description.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmm_coo_cusparse;
prepare_cuda_function prepare_cuda_spmm_csr_cusparse;

namespace {

product_kernel on_cusparse(std::string format, std::string summary, std::vector<int> algorithms, std::vector<int> tried,
                           std::string meaning) {
  return {
      .op = operation::spmm,
      .name = "cusparse",
      .format = std::move(format),
      .summary = std::move(summary),
      .source = "cuSPARSE",
      .layouts = {layout::row_major, layout::column_major},
      .parameters = {{"algorithm", 0, std::move(algorithms), std::move(tried), false, std::move(meaning)}},
      .dtypes = all_value_types,
      .permutes = false,
      .reproducible = false,
      .vendor = true,
      .from_device = true,
      .unsupported_reason = cusparse_reason,
  };
}

// The library's third algorithm for CSR (12.6.3) computed wrong products and read memory that is not there on all
// matrices of random tests with such a row, which repeats columns, and on no others.
std::string csr_reason(const matrix_summary& matrix, const product_request& request) {
  if (request.parameters.at("algorithm") == 3 && matrix.longest_row > matrix.num_cols) {
    return "is wrong where a row has more entries than the matrix has columns";
  }
  return cusparse_reason(matrix, request);
}

}  // namespace

product_kernel spmm_csr_cusparse() {
  auto kernel = on_cusparse("csr", "The vendor's library on CSR, preprocessed.", {0, 1, 2, 3}, {0, 1, 2, 3},
                            "0: the library's default; n: CUSPARSE_SPMM_CSR_ALGn");
  kernel.unsupported_reason = csr_reason;
  kernel.prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmm_csr_cusparse);
  return kernel;
}

product_kernel spmm_coo_cusparse() {
  auto kernel = on_cusparse("coo", "The vendor's library on COO, preprocessed.", {0, 1, 2, 3, 4}, {1, 2, 3, 4},
                            "0: the library's default; n: CUSPARSE_SPMM_COO_ALGn");
  kernel.prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmm_coo_cusparse);
  return kernel;
}

}  // namespace warploom
