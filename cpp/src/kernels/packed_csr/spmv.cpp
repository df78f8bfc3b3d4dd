// SpMV through rows packed into warps.
#include "kernels/cpu/format_plan.hpp"
#include "kernels/description.hpp"
#include "kernels/packed_csr/products.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmv_packed_csr_segmented_sum;

std::string packed_reason(const matrix_summary& matrix, const product_request& request) {
  if (matrix.num_rows >= std::int64_t{packed_target}) return "needs fewer than 2^30 - 1 rows";
  return needs_int32_offsets(matrix, request);
}

namespace {

class cpu_packed_csr_plan final : public cpu_format_plan<cpu_packed_csr_plan, packed_csr> {
 public:
  using cpu_format_plan::cpu_format_plan;

  template <class Value>
  void multiply_values(const Value* x, Value* y) const {
    multiply_packed(matrix_, x, y);
  }
};

std::unique_ptr<product_plan> prepare_cpu(const csr_view& matrix, const product_request& request) {
  return std::make_unique<cpu_packed_csr_plan>(to_packed(
      store_all_rows(matrix, request.perm), request.parameters.at("entries_per_lane"), request.parameters.at("steps")));
}

}  // namespace

product_kernel spmv_packed_csr_segmented_sum() {
  return {
      .op = operation::spmv,
      .name = "segmented_sum",
      .format = "packed-csr",
      .summary = "Rows packed into warps whatever their lengths, summed by a segmented scan over the lanes.",
      .source = "own",
      .layouts = {layout::column_major},
      .parameters = {{"entries_per_lane", 4, {1, 2, 4}, {1, 2, 4}, true, "consecutive entries of a row in each lane"},
                     {"steps", 1, {1, 2, 4}, {1, 2, 4}, true, "steps of a warp, each with 32 lanes"}},
      .dtypes = all_value_types,
      .from_device = true,
      .unsupported_reason = packed_reason,
      .prepare_cpu = prepare_cpu,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_packed_csr_segmented_sum),
  };
}

}  // namespace warploom
