// SpMV through rows packed into warps: warps in parallel, the partial sums of cut rows are added in their order at the
// end.
#include "kernels/cpu/format_plan.hpp"
#include "kernels/description.hpp"
#include "kernels/packed_csr/packed_csr.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmv_packed_csr_segmented_sum;

namespace {

class cpu_packed_csr_plan final : public cpu_format_plan<cpu_packed_csr_plan, packed_csr> {
 public:
  using cpu_format_plan::cpu_format_plan;

  template <class Value>
  void multiply_values(const Value* x, Value* y) const {
    std::vector<accumulator_t<Value>> partial(matrix_.pieces.size());
    const std::int64_t per_warp = matrix_.lanes_per_warp();
    constexpr std::int64_t warps_per_thread = 64;
    parallel_for(0, matrix_.num_warps(), warps_per_thread, [&](std::int64_t begin, std::int64_t end) {
      accumulator_t<Value> sum = 0;
      for (std::int64_t lane = begin * per_warp; lane < end * per_warp; ++lane) {
        const std::uint32_t meaning = matrix_.lanes[lane];
        if (meaning == packed_filler) continue;
        if (meaning & packed_head) sum = 0;
        sum += lane_sum(lane, x);
        const std::uint32_t target = meaning & packed_target;
        if (meaning & packed_cut) {
          partial[target] = sum;
        } else {
          y[target] = Value(sum);  // written once for each lane of the row; the last time it is complete
        }
      }
    });
    for (const std::int32_t row : matrix_.empty_rows) y[row] = Value(0);
    for (std::size_t first = 0; first < matrix_.pieces.size();) {
      const std::int32_t row = matrix_.pieces[first].row;
      accumulator_t<Value> sum = 0;
      for (; first < matrix_.pieces.size() && matrix_.pieces[first].row == row; ++first) sum += partial[first];
      y[row] = Value(sum);
    }
  }

 private:
  template <class Value>
  accumulator_t<Value> lane_sum(std::int64_t lane, const Value* x) const {
    const std::int32_t* indices = matrix_.indices.data() + lane * matrix_.entries_per_lane;
    const Value* values = reinterpret_cast<const Value*>(matrix_.data.data()) + lane * matrix_.entries_per_lane;
    accumulator_t<Value> sum = 0;
    for (int i = 0; i < matrix_.entries_per_lane && indices[i] >= 0; ++i) sum += values[i] * x[indices[i]];
    return sum;
  }
};

std::unique_ptr<product_plan> prepare_cpu(const csr_view& matrix, const product_request& request) {
  return std::make_unique<cpu_packed_csr_plan>(to_packed(
      store_all_rows(matrix, request.perm), request.parameters.at("entries_per_lane"), request.parameters.at("steps")));
}

std::string packed_reason(const matrix_summary& matrix, const product_request& request) {
  if (matrix.num_rows >= std::int64_t{packed_target}) return "needs fewer than 2^30 - 1 rows";
  return needs_int32_offsets(matrix, request);
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
