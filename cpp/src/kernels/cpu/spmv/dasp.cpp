// SpMV through DASP: each row, wherever its slots lie, is summed by one thread from its first entry to its last, so
// that the result does not depend on the number of threads.
#include "warploom/formats/dasp.hpp"

#include "kernels/cpu/spmv/format_plan.hpp"
#include "kernels/cpu/spmv/prepare.hpp"

namespace warploom {
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

}  // namespace

std::unique_ptr<product_plan> prepare_cpu_dasp(const csr_view& matrix, const product_request& request) {
  dasp_options options;
  options.max_length = request.parameters.at("max_length");
  return std::make_unique<cpu_dasp_plan>(matrix, options);
}

}  // namespace warploom
