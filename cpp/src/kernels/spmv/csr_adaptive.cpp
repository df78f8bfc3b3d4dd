#include "kernels/cpu/spmv/prepare.hpp"
#include "kernels/cuda/spmv/prepare.hpp"
#include "kernels/spmv/kernels.hpp"

namespace warploom {

product_kernel csr_adaptive() {
  return {
      .name = "adaptive",
      .format = "csr",
      .summary =
          "CSR-adaptive of Greathouse and Daga 2014: rows in blocks of about equal numbers of nonzeros, summed through "
          "shared memory; long rows by one thread block or several.",
      .layouts = {layout::column_major},
      .parameters = {{"nnz_per_block",
                      1024,
                      {256, 512, 1024, 2048, 4096},
                      {256, 512, 1024, 2048},
                      false,
                      "nonzeros that a thread block takes; rows of more than twice as many are cut"}},
      .dtypes = all_value_types,
      .from_device = true,
      .unsupported_reason = spmv_needs_int32_offsets,
      .prepare_cpu = prepare_cpu_csr,
      .prepare_cuda = prepare_cuda_csr_adaptive,
  };
}

}  // namespace warploom
