// The visible list of SpMV kernels: a new one is a file in kernels/spmv that describes it, and a line here.
#include <limits>

#include "kernels/spmv/kernels.hpp"

namespace warploom {

std::string spmv_no_reason(const csr_view&, const product_request&) { return ""; }

std::string spmv_needs_int32_offsets(const csr_view& matrix, const product_request&) {
  return matrix.nnz() > std::numeric_limits<std::int32_t>::max() ? "needs fewer than 2^31 nonzeros" : "";
}

std::span<const product_kernel> spmv_kernels() {
  static const std::vector<product_kernel> registered{
      csr_scalar(),
      csr_vector(),
      cmrs_basic(),
      cmrs_modified(),
      cmrs_registers(),
  };
  return registered;
}

}  // namespace warploom
