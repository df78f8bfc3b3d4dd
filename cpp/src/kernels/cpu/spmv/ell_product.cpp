// SpMV through ELL: a few rows at a time, column after column.
#include <algorithm>
#include <array>

#include "kernels/cpu/spmv/format_plan.hpp"
#include "kernels/cpu/spmv/prepare.hpp"
#include "kernels/cpu/spmv/sell_columns.hpp"
#include "warploom/formats/ell.hpp"
#include "warploom/parallel.hpp"

namespace warploom {
namespace {

constexpr std::int64_t rows_at_once = 64;

class cpu_ell_plan final : public cpu_format_plan<cpu_ell_plan, ell_matrix> {
 public:
  using cpu_format_plan::cpu_format_plan;

  template <class Value>
  void multiply_values(const Value* x, Value* y) const {
    constexpr std::int64_t work_per_thread = 1 << 16;
    const auto* values = reinterpret_cast<const Value*>(matrix_.data.data());
    parallel_for(0, matrix_.num_rows, work_per_thread / (matrix_.width + 1) + 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t first = begin; first < end; first += rows_at_once) {
                     const std::int64_t count = std::min(rows_at_once, end - first);
                     std::array<accumulator_t<Value>, rows_at_once> sums{};
                     add_columns<Value>(sums.data(), count, matrix_.width, matrix_.indices.data() + first,
                                        values + first, matrix_.num_rows, x);
                     for (std::int64_t r = 0; r < count; ++r) y[first + r] = Value(sums[r]);
                   }
                 });
  }
};

}  // namespace

std::unique_ptr<product_plan> prepare_cpu_ell(const csr_view& matrix, const product_request&) {
  return std::make_unique<cpu_ell_plan>(to_ell_of_width(matrix, longest_row(matrix)));
}

}  // namespace warploom
