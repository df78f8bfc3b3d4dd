// SpMV through rows padded to one length: a row ends at its first place without an entry.
#include "warploom/formats/padded_csr.hpp"

#include "kernels/cpu/spmv/format_plan.hpp"
#include "kernels/cpu/spmv/prepare.hpp"
#include "warploom/parallel.hpp"

namespace warploom {
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

}  // namespace

std::unique_ptr<product_plan> prepare_cpu_padded_csr(const csr_view& matrix, const product_request& request) {
  return std::make_unique<cpu_padded_csr_plan>(to_padded(store_all_rows(matrix, request.perm)));
}

}  // namespace warploom
