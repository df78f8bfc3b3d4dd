// SpMV through DASP: each row, wherever its slots are, is summed by one thread from its first entry to its last, so
// that the result does not depend on the number of threads.
#include "kernels/cpu/format_plan.hpp"
#include "kernels/description.hpp"
#include "warploom/formats/dasp.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmv_dasp_cuda_core;
prepare_cuda_function prepare_cuda_spmv_dasp_tensor_core;

namespace {

class cpu_dasp_plan final : public cpu_balanced_plan<cpu_dasp_plan, dasp_matrix> {
 public:
  cpu_dasp_plan(const csr_view& matrix, const dasp_options& options) : cpu_balanced_plan(to_dasp(matrix, options)) {
    ranges_ = balance_work(matrix_.row_ids.size(), [&](std::int64_t position) {
      const std::int32_t row = matrix_.row_ids[position];
      return row < 0 ? 0 : matrix.row_length(row);
    });
  }

  template <class Value>
  void multiply_values(const Value* x, Value* y) const {
    const Value* values = reinterpret_cast<const Value*>(matrix_.data.data());
    for_each_range([&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t position = begin; position < end; ++position) {
        if (matrix_.row_ids[position] < 0) continue;
        accumulator_t<Value> sum = 0;
        matrix_.for_each_entry(position, [&](std::int64_t slot) { sum += values[slot] * x[matrix_.indices[slot]]; });
        y[matrix_.row_ids[position]] = Value(sum);
      }
    });
  }
};

std::unique_ptr<product_plan> prepare_cpu(const csr_view& matrix, const product_request& request) {
  dasp_options options;
  options.max_length = request.parameters.at("max_length");
  return std::make_unique<cpu_dasp_plan>(matrix, options);
}

product_kernel dasp(std::string name, std::string summary, std::string source) {
  return {
      .op = operation::spmv,
      .name = std::move(name),
      .format = "dasp",
      .summary = std::move(summary),
      .source = std::move(source),
      .layouts = {layout::column_major},
      .parameters =
          {{"max_length", 256, {64, 128, 256, 512}, {64, 256, 512}, true, "entries of the longest medium row"}},
      .dtypes = all_value_types,
      .permutes = false,  // the format has an order of its own
      .from_device = true,
      .unsupported_reason = needs_int32_offsets,
      .prepare_cpu = prepare_cpu,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_dasp_cuda_core),
  };
}

}  // namespace

product_kernel spmv_dasp_tensor_core() {
  product_kernel kernel = dasp("tensor_core",
                               "DASP (Lu and Liu 2023) in one launch: blocks of long, medium and short rows are "
                               "multiplied on tensor cores. Needs compute capability 8.0.",
                               "Lu and Liu 2023");
  kernel.dtypes = {value_type::float16, value_type::float64};
  kernel.prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_dasp_tensor_core);
  return kernel;
}

product_kernel spmv_dasp_cuda_core() {
  product_kernel kernel =
      dasp("cuda_core", "The format of DASP (Lu and Liu 2023) multiplied without tensor cores, in one launch.", "own");
  kernel.for_large = true;
  return kernel;
}

}  // namespace warploom
