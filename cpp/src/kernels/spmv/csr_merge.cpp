#include "kernels/cpu/spmv/prepare.hpp"
#include "kernels/cuda/spmv/prepare.hpp"
#include "kernels/spmv/kernels.hpp"

namespace warploom {

product_kernel csr_merge() {
  return {
      .name = "merge",
      .format = "csr",
      .summary = "Merge-path SpMV of Merrill and Garland 2016: every thread takes equally many nonzeros and row ends.",
      .layouts = {layout::column_major},
      .parameters = {{"items_per_thread", 8, {2, 4, 8, 16}, {2, 4, 8, 16}, false, "nonzeros and row ends of a thread"}},
      .dtypes = all_value_types,
      .from_device = true,
      .unsupported_reason = spmv_needs_int32_offsets,
      .prepare_cpu = prepare_cpu_csr,
      .prepare_cuda = prepare_cuda_csr_merge,
  };
}

}  // namespace warploom
