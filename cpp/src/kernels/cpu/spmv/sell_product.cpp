// SpMV through SELL-C-sigma: slice after slice, column after column, with the sums of a slice side by side.
#include <algorithm>

#include "kernels/cpu/spmv/format_plan.hpp"
#include "kernels/cpu/spmv/prepare.hpp"
#include "kernels/cpu/spmv/sell_columns.hpp"
#include "kernels/spmv/sell.hpp"
#include "warploom/formats/sell.hpp"

namespace warploom {
namespace {

class cpu_sell_plan final : public cpu_balanced_plan<cpu_sell_plan, sell_matrix> {
 public:
  explicit cpu_sell_plan(sell_matrix matrix) : cpu_balanced_plan(std::move(matrix)) {
    ranges_ = balance_work(matrix_.num_slices(),
                           [&](std::int64_t s) { return (matrix_.width(s) + 1) * matrix_.slice_height; });
  }

  template <class Value>
  void multiply_values(const Value* x, Value* y) const {
    const auto* values = reinterpret_cast<const Value*>(matrix_.data.data());
    for_each_range([&](std::int64_t begin, std::int64_t end) {
      std::vector<accumulator_t<Value>> sums(matrix_.slice_height);
      for (std::int64_t s = begin; s < end; ++s) {
        const std::int64_t first = s * matrix_.slice_height;
        const std::int64_t count = std::min<std::int64_t>(matrix_.slice_height, matrix_.num_rows - first);
        std::fill(sums.begin(), sums.end(), accumulator_t<Value>(0));
        add_columns<Value>(sums.data(), count, matrix_.width(s), matrix_.indices.data() + matrix_.slice_ptr[s],
                           values + matrix_.slice_ptr[s], matrix_.slice_height, x);
        for (std::int64_t r = 0; r < count; ++r) y[matrix_.row_of(first + r)] = Value(sums[r]);
      }
    });
  }
};

}  // namespace

std::unique_ptr<product_plan> prepare_cpu_sell(const csr_view& matrix, const product_request& request) {
  return std::make_unique<cpu_sell_plan>(
      to_sell(matrix, sell_slice_height(request), request.parameters.at("sort_window")));
}

}  // namespace warploom
