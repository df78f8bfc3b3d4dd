// The vendor's SpMV on the formats it knows: measured baselines, and candidates like any other.
#include "kernels/cusparse/reason.hpp"
#include "kernels/description.hpp"
#include "kernels/sell/slice_height.hpp"
#include "warploom/formats/bsr.hpp"
#include "warploom/formats/sell.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmv_bsr_cusparse;
prepare_cuda_function prepare_cuda_spmv_coo_cusparse;
prepare_cuda_function prepare_cuda_spmv_csr_cusparse;
prepare_cuda_function prepare_cuda_spmv_sell_cusparse;

namespace {

std::string sell_reason(const csr_view& matrix, const product_request& request) {
  return sell_places_reason(sell_places(matrix, request.parameters.at("slice_height"), 1), matrix.nnz());
}

std::string bsr_places_reason(const csr_view& matrix, const product_request& request) {
  return padding_reason(bsr_places(matrix, request.parameters.at("block_size")), matrix.nnz());
}

std::string bsr_reason(const matrix_summary& matrix, const product_request& request) {
  const int size = request.parameters.at("block_size");
  if (matrix.num_rows % size != 0 || matrix.num_cols % size != 0) {
    return "needs rows and columns divisible by " + std::to_string(size);
  }
  return cusparse_reason(matrix, request);
}

product_kernel on_cusparse(std::string format, std::string summary, std::vector<parameter> parameters) {
  return {
      .op = operation::spmv,
      .name = "cusparse",
      .format = std::move(format),
      .summary = std::move(summary),
      .source = "cuSPARSE",
      .layouts = {layout::column_major},
      .parameters = std::move(parameters),
      .dtypes = all_value_types,
      .permutes = false,
      .reproducible = false,
      .vendor = true,
      .unsupported_reason = cusparse_reason,
  };
}

}  // namespace

product_kernel spmv_csr_cusparse() {
  auto kernel = on_cusparse(
      "csr", "The vendor's library on CSR, preprocessed.",
      {{"algorithm", 0, {0, 1, 2}, {0, 1, 2}, false, "0: the library's default; n: CUSPARSE_SPMV_CSR_ALGn"}});
  kernel.from_device = true;
  kernel.prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_csr_cusparse);
  return kernel;
}

product_kernel spmv_coo_cusparse() {
  auto kernel =
      on_cusparse("coo", "The vendor's library on COO, preprocessed.",
                  {{"algorithm", 0, {0, 1, 2}, {1, 2}, false, "0: the library's default; n: CUSPARSE_SPMV_COO_ALGn"}});
  kernel.from_device = true;
  kernel.prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_coo_cusparse);
  return kernel;
}

product_kernel spmv_sell_cusparse() {
  auto kernel = on_cusparse("sell", "The vendor's library on sliced ELL, preprocessed.",
                            {{"slice_height", 32, {2, 4, 8, 16, 32, 64}, {32}, false, "rows of a slice"}});
  kernel.from_device = true;
  kernel.pattern_reason = sell_reason;
  kernel.prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_sell_cusparse);
  return kernel;
}

product_kernel spmv_bsr_cusparse() {
  auto kernel = on_cusparse("bsr", "The vendor's library on BSR, preprocessed.",
                            {{"block_size", 4, {2, 4, 8}, {2, 4, 8}, false, "rows and columns of a block"}});
  kernel.unsupported_reason = bsr_reason;
  kernel.pattern_reason = bsr_places_reason;
  kernel.prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_bsr_cusparse);
  return kernel;
}

}  // namespace warploom
