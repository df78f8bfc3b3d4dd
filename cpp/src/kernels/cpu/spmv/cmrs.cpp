// SpMV through CMRS: one thread a strip, with a sum for each of its rows, from the strip's first place to its last.
#include "kernels/spmv/cmrs.hpp"

#include <algorithm>
#include <vector>

#include "kernels/cpu/spmv/format_plan.hpp"
#include "kernels/cpu/spmv/prepare.hpp"

namespace warploom {
namespace {

class cpu_cmrs_plan final : public cpu_balanced_plan<cpu_cmrs_plan, cmrs_matrix> {
 public:
  explicit cpu_cmrs_plan(cmrs_matrix matrix) : cpu_balanced_plan(std::move(matrix)) {
    ranges_ = balance_work(matrix_.num_strips(), [&](std::int64_t strip) {
      return matrix_.strip_ptr[strip + 1] - matrix_.strip_ptr[strip] + matrix_.options.height;
    });
  }

  template <class Value>
  void multiply_values(const Value* x, Value* y) const {
    matrix_.options.packed ? multiply_strips<true>(x, y) : multiply_strips<false>(x, y);
  }

 private:
  template <bool Packed, class Value>
  void multiply_strips(const Value* x, Value* y) const {
    const auto* values = reinterpret_cast<const Value*>(matrix_.data.data());
    const std::int64_t height = matrix_.options.height;
    for_each_range([&](std::int64_t first, std::int64_t last) {
      std::vector<accumulator_t<Value>> sums(height);
      for (std::int64_t strip = first; strip < last; ++strip) {
        std::fill(sums.begin(), sums.end(), accumulator_t<Value>{0});
        for_each_entry<Packed>(
            matrix_, matrix_.strip_ptr[strip], matrix_.strip_ptr[strip + 1],
            [&](std::int64_t j, std::int32_t column, std::uint32_t row) { sums[row] += values[j] * x[column]; });
        const std::int64_t rows = std::min(height, matrix_.num_rows - strip * height);
        for (std::int64_t row = 0; row < rows; ++row) y[strip * height + row] = Value(sums[row]);
      }
    });
  }
};

}  // namespace

std::unique_ptr<product_plan> prepare_cpu_cmrs(const csr_view& matrix, const product_request& request) {
  return std::make_unique<cpu_cmrs_plan>(to_cmrs(matrix, cmrs_options_of(request.parameters)));
}

}  // namespace warploom
