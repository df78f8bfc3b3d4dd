#include "kernels/csr/spmv.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmv_csr_adaptive;

product_kernel spmv_csr_adaptive() {
  return {
      .op = operation::spmv,
      .name = "adaptive",
      .format = "csr",
      .summary =
          "CSR-adaptive of Greathouse and Daga 2014: rows in blocks of about equal numbers of nonzeros, summed through "
          "shared memory; long rows by one thread block or several.",
      .source = "Greathouse and Daga 2014",
      .layouts = {layout::column_major},
      .parameters = {{"nnz_per_block",
                      1024,
                      {256, 512, 1024, 2048, 4096},
                      {256, 512, 1024, 2048},
                      false,
                      "nonzeros that a thread block takes; rows of more than twice as many are cut"}},
      .dtypes = all_value_types,
      .from_device = true,
      .unsupported_reason = needs_int32_offsets,
      .prepare_cpu = prepare_cpu_spmv_csr,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_csr_adaptive),
  };
}

}  // namespace warploom
