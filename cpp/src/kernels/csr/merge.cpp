#include "kernels/csr/spmv.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmv_csr_merge;

product_kernel spmv_csr_merge() {
  return {
      .op = operation::spmv,
      .name = "merge",
      .format = "csr",
      .summary = "Merge-path SpMV of Merrill and Garland 2016: every thread takes equally many nonzeros and row ends.",
      .source = "Merrill and Garland 2016",
      .layouts = {layout::column_major},
      .parameters =
          {{"items_per_thread", 8, {2, 4, 8, 16}, {2, 4, 8, 16}, false, "nonzeros and row ends of each thread"}},
      .dtypes = all_value_types,
      .from_device = true,
      .unsupported_reason = needs_int32_offsets,
      .prepare_cpu = prepare_cpu_spmv_csr,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_csr_merge),
  };
}

}  // namespace warploom
