// The visible lists of kernels and formats. A new one is a description beside its code, in the folder of its format or
// strategy, and a row here: <operation>_<format>_<kernel>, and <format>_format.
#include <vector>

#include "warploom/formats/format.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

// clang-format off
#define WARPLOOM_SPMM_KERNELS(row) \
  row(spmm_csr_c_stationary) \
  row(spmm_dcsr_c_stationary) \
  row(spmm_csr_row_split) \
  row(spmm_dcsr_row_split) \
  row(spmm_segmented_csr_row_split) \
  row(spmm_segmented_csr_c_stationary) \
  row(spmm_padded_csr_c_stationary) \
  row(spmm_padded_csr_row_split) \
  row(spmm_packed_csr_segmented_sum) \
  row(spmm_csr_nonzero_split) \
  row(spmm_column_vectors_tensor_core) \
  row(spmm_column_vectors_tensor_core_tf32) \
  row(spmm_hybrid_vectors_tensor_core) \
  row(spmm_hybrid_vectors_tensor_core_tf32) \
  row(spmm_dense_cublas) \
  row(spmm_dense_cublas_tf32) \
  row(spmm_csr_cusparse) \
  row(spmm_coo_cusparse)

#define WARPLOOM_SPMV_KERNELS(row) \
  row(spmv_csr_scalar) \
  row(spmv_csr_vector) \
  row(spmv_csr_adaptive) \
  row(spmv_csr_merge) \
  row(spmv_csr_blockwise) \
  row(spmv_dcsr_vector) \
  row(spmv_padded_csr_vector) \
  row(spmv_packed_csr_segmented_sum) \
  row(spmv_hub_csr_segmented_sum) \
  row(spmv_coo_segmented_sum) \
  row(spmv_ell_vector) \
  row(spmv_hyb_fused) \
  row(spmv_sell_vector) \
  row(spmv_compressed_sell_vector) \
  row(spmv_bsr_vector) \
  row(spmv_cmrs_basic) \
  row(spmv_cmrs_modified) \
  row(spmv_cmrs_registers) \
  row(spmv_dasp_tensor_core) \
  row(spmv_dasp_cuda_core) \
  row(spmv_column_panels_shared_x) \
  row(spmv_csr_cusparse) \
  row(spmv_coo_cusparse) \
  row(spmv_sell_cusparse) \
  row(spmv_bsr_cusparse)

#define WARPLOOM_FORMATS(row) \
  row(csr_format) \
  row(dcsr_format) \
  row(segmented_csr_format) \
  row(padded_csr_format) \
  row(packed_csr_format) \
  row(hub_csr_format) \
  row(coo_format) \
  row(ell_format) \
  row(hyb_format) \
  row(bsr_format) \
  row(column_vectors_format) \
  row(hybrid_vectors_format) \
  row(dense_format) \
  row(sell_format) \
  row(compressed_sell_format) \
  row(cmrs_format) \
  row(dasp_format) \
  row(column_panels_format)
// clang-format on

#define WARPLOOM_DECLARE(description) product_kernel description();
#define WARPLOOM_DECLARE_FORMAT(description) format_description description();
#define WARPLOOM_CALL(description) description(),

WARPLOOM_SPMM_KERNELS(WARPLOOM_DECLARE)
WARPLOOM_SPMV_KERNELS(WARPLOOM_DECLARE)
WARPLOOM_FORMATS(WARPLOOM_DECLARE_FORMAT)

std::span<const product_kernel> kernels(operation op) {
  static const std::vector<product_kernel> spmm{WARPLOOM_SPMM_KERNELS(WARPLOOM_CALL)};
  static const std::vector<product_kernel> spmv{WARPLOOM_SPMV_KERNELS(WARPLOOM_CALL)};
  return op == operation::spmm ? spmm : spmv;
}

std::span<const format_description> formats() {
  static const std::vector<format_description> all{WARPLOOM_FORMATS(WARPLOOM_CALL)};
  return all;
}

}  // namespace warploom
