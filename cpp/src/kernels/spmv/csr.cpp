// SpMV kernels that read CSR.
#include "kernels/cpu/spmv/prepare.hpp"
#include "kernels/cuda/spmv/prepare.hpp"
#include "kernels/spmv/kernels.hpp"

namespace warploom {

product_kernel csr_scalar() {
  return {
      .name = "scalar",
      .format = "csr",
      .summary = "CSR-scalar of Bell and Garland 2009: one thread for each row.",
      .layouts = {layout::column_major},
      .parameters = {},
      .dtypes = all_value_types,
      .from_device = true,
      .unsupported_reason = spmv_no_reason,
      .prepare_cpu = prepare_cpu_csr,
      .prepare_cuda = prepare_cuda_csr_scalar,
  };
}

product_kernel csr_vector() {
  return {
      .name = "vector",
      .format = "csr",
      .summary =
          "CSR-vector of Bell and Garland 2009: threads_per_row neighbouring threads share the nonzeros of a row.",
      .layouts = {layout::column_major},
      .parameters = {{"threads_per_row", 32, {2, 4, 8, 16, 32}, {2, 4, 8, 16, 32}, false, "threads that share a row"}},
      .dtypes = all_value_types,
      .from_device = true,
      .unsupported_reason = spmv_no_reason,
      .prepare_cpu = prepare_cpu_csr,
      .prepare_cuda = prepare_cuda_csr_vector,
  };
}

}  // namespace warploom
