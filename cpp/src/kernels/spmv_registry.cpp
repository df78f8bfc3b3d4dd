// The visible list of SpMV kernels: a new one is a file in kernels/spmv that describes it, and a line here.
#include <limits>
#include <string>

#include "kernels/spmv/kernels.hpp"

namespace warploom {

std::string spmv_no_reason(const csr_view&, const product_request&) { return ""; }

std::string spmv_needs_int32_offsets(const csr_view& matrix, const product_request&) {
  return matrix.nnz() > std::numeric_limits<std::int32_t>::max() ? "needs fewer than 2^31 nonzeros" : "";
}

std::string spmv_padding_reason(std::int64_t places, std::int64_t nnz) {
  if (places <= 4 * nnz + 4096) return "";
  return "would store " + std::to_string(places) + " entries for " + std::to_string(nnz) + " nonzeros";
}

std::span<const product_kernel> spmv_kernels() {
  static const std::vector<product_kernel> registered{
      csr_scalar(),
      csr_vector(),
      padded_csr_vector(),
      packed_csr_segmented_sum(),
      csr_cusparse(),
      coo_cusparse(),
      compressed_sell_vector(),
      csr_adaptive(),
      csr_blockwise(),
      csr_merge(),
      dasp_tensor_core(),
      dasp_cuda_core(),
      column_panels_shared_x(),
      bsr_vector(),
      coo_segmented_sum(),
      ell_vector(),
      hyb_fused(),
      sell_vector(),
      cmrs_basic(),
      cmrs_modified(),
      cmrs_registers(),
  };
  return registered;
}

}  // namespace warploom
