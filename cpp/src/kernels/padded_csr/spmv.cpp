// SpMV through rows padded to one length: a row ends at its first place without an entry.
#include "kernels/cpu/format_plan.hpp"
#include "kernels/description.hpp"
#include "kernels/padded_csr/padded_csr.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmv_padded_csr_vector;

namespace {

class cpu_padded_csr_plan final : public cpu_format_plan<cpu_padded_csr_plan, padded_csr> {
 public:
  using cpu_format_plan::cpu_format_plan;

  template <class Value>
  void multiply_values(const Value* x, Value* y) const {
    constexpr std::int64_t entries_per_thread = 1 << 16;
    const std::int64_t grain = entries_per_thread / (matrix_.width + 1) + 1;
    parallel_for(0, matrix_.num_rows, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) {
        const std::int32_t* indices = matrix_.indices.data() + p * matrix_.width;
        const Value* values = reinterpret_cast<const Value*>(matrix_.data.data()) + p * matrix_.width;
        accumulator_t<Value> sum = 0;
        for (int j = 0; j < matrix_.width && indices[j] >= 0; ++j) sum += values[j] * x[indices[j]];
        y[matrix_.row_ids.empty() ? p : matrix_.row_ids[p]] = Value(sum);
      }
    });
  }
};

std::unique_ptr<product_plan> prepare_cpu(const csr_view& matrix, const product_request& request) {
  return std::make_unique<cpu_padded_csr_plan>(to_padded(store_all_rows(matrix, request.perm)));
}

std::string padded_reason(const matrix_summary& matrix, const product_request& request) {
  const std::int64_t threads = matrix.num_rows * request.parameters.at("threads_per_row");
  if (threads >= std::int64_t{1} << 32) return "would need " + std::to_string(threads) + " threads";
  return padding_reason(padded_width(matrix.longest_row) * matrix.num_rows, matrix.nnz);
}

}  // namespace

product_kernel spmv_padded_csr_vector() {
  return {
      .op = operation::spmv,
      .name = "vector",
      .format = "padded-csr",
      .summary = "csr/vector over rows padded to one length, which are found without reading row offsets.",
      .source = "own",
      .layouts = {layout::column_major},
      .parameters = {{"threads_per_row", 2, {1, 2, 4, 8, 16, 32}, {1, 2, 4, 8, 16}, false, "threads that share a row"}},
      .dtypes = all_value_types,
      .from_device = true,
      .redundant = too_many_threads_per_row,
      .unsupported_reason = padded_reason,
      .prepare_cpu = prepare_cpu,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_padded_csr_vector),
  };
}

}  // namespace warploom
