// SpMV on rows packed into warps.
#include "warploom/formats/packed_csr.hpp"

#include "kernels/cpu/spmv/prepare.hpp"
#include "kernels/cuda/spmv/prepare.hpp"
#include "kernels/spmv/kernels.hpp"

namespace warploom {
namespace {

std::string packed_reason(const csr_view& matrix, const product_request& request) {
  if (matrix.num_rows >= std::int64_t{packed_target}) return "needs fewer than 2^30 - 1 rows";
  return spmv_needs_int32_offsets(matrix, request);
}

}  // namespace

product_kernel packed_csr_segmented_sum() {
  return {
      .name = "segmented_sum",
      .format = "packed-csr",
      .summary = "Rows packed into warps whatever their lengths, summed by a segmented scan over the lanes.",
      .layouts = {layout::column_major},
      .parameters = {{"entries_per_lane", 4, {1, 2, 4}, {1, 2, 4}, true, "consecutive entries of a row in one lane"},
                     {"steps", 1, {1, 2, 4}, {1, 2, 4}, true, "times 32 lanes that a warp has"}},
      .dtypes = all_value_types,
      .unsupported_reason = packed_reason,
      .prepare_cpu = prepare_cpu_packed_csr,
      .prepare_cuda = prepare_cuda_packed_csr_segmented_sum,
  };
}

}  // namespace warploom
