// SpMV through HYB: the ELL part of a few rows, then what they have in COO.
#include <algorithm>
#include <array>

#include "kernels/cpu/spmv/format_plan.hpp"
#include "kernels/cpu/spmv/prepare.hpp"
#include "kernels/cpu/spmv/sell_columns.hpp"
#include "warploom/formats/hyb.hpp"

namespace warploom {
namespace {

constexpr std::int64_t rows_at_once = 64;

class cpu_hyb_plan final : public cpu_balanced_plan<cpu_hyb_plan, hyb_matrix> {
 public:
  explicit cpu_hyb_plan(hyb_matrix matrix) : cpu_balanced_plan(std::move(matrix)), overflow_(row_offsets(matrix_.coo)) {
    ranges_ = balance_work(matrix_.num_rows,
                           [&](std::int64_t row) { return matrix_.ell.width + overflow_[row + 1] - overflow_[row]; });
  }

  template <class Value>
  void multiply_values(const Value* x, Value* y) const {
    for_each_range([&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t first = begin; first < end; first += rows_at_once) {
        multiply_rows(first, std::min(rows_at_once, end - first), x, y);
      }
    });
  }

  std::size_t bytes() const override {
    return matrix_.bytes() + (overflow_.size() + ranges_.boundaries.size()) * sizeof(std::int64_t);
  }

 private:
  template <class Value>
  void multiply_rows(std::int64_t first, std::int64_t count, const Value* x, Value* y) const {
    std::array<accumulator_t<Value>, rows_at_once> sums{};
    const auto* ell_values = reinterpret_cast<const Value*>(matrix_.ell.data.data());
    const auto* coo_values = reinterpret_cast<const Value*>(matrix_.coo.data.data());
    add_columns<Value>(sums.data(), count, matrix_.ell.width, matrix_.ell.indices.data() + first, ell_values + first,
                       matrix_.num_rows, x);
    for (std::int64_t r = 0; r < count; ++r) {
      for (std::int64_t j = overflow_[first + r]; j < overflow_[first + r + 1]; ++j) {
        sums[r] += coo_values[j] * x[matrix_.coo.indices[j]];
      }
      y[first + r] = Value(sums[r]);
    }
  }

  std::vector<std::int64_t> overflow_;  // where each row starts in the COO part
};

}  // namespace

std::unique_ptr<product_plan> prepare_cpu_hyb(const csr_view& matrix, const product_request& request) {
  return std::make_unique<cpu_hyb_plan>(to_hyb(matrix, request.parameters.at("width")));
}

}  // namespace warploom
