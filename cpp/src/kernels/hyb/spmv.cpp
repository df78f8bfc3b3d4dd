// SpMV through HYB: the ELL part of a few rows, then what they have in COO.
#include <algorithm>
#include <array>
#include <limits>

#include "kernels/cpu/format_plan.hpp"
#include "kernels/description.hpp"
#include "kernels/hyb/width.hpp"
#include "kernels/sell/columns.hpp"
#include "warploom/formats/hyb.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmv_hyb_fused;

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
  std::vector<value_array> value_arrays() override {
    return {{matrix_.ell.data.data(), matrix_.ell.places()}, {matrix_.coo.data.data(), matrix_.coo.places()}};
  }

 private:
  template <class Value>
  void multiply_rows(std::int64_t first, std::int64_t count, const Value* x, Value* y) const {
    std::array<accumulator_t<Value>, rows_at_once> sums{};
    const auto* ell_values = reinterpret_cast<const Value*>(matrix_.ell.data.data());
    const auto* coo_values = reinterpret_cast<const Value*>(matrix_.coo.data.data());
    if (matrix_.ell.width > 0) {
      add_columns<Value>(sums.data(), count, matrix_.ell.width, matrix_.ell.indices.data() + first, ell_values + first,
                         matrix_.num_rows, x);
    }
    for (std::int64_t r = 0; r < count; ++r) {
      for (std::int64_t j = overflow_[first + r]; j < overflow_[first + r + 1]; ++j) {
        sums[r] += coo_values[j] * x[matrix_.coo.indices[j]];
      }
      y[first + r] = Value(sums[r]);
    }
  }

  std::vector<std::int64_t> overflow_;  // where each row starts in the COO part
};

std::unique_ptr<product_plan> prepare_cpu(const csr_view& matrix, const product_request& request) {
  return std::make_unique<cpu_hyb_plan>(to_hyb(matrix, request.parameters.at("width")));
}

std::string hyb_reason(const csr_view& matrix, const product_request& request) {
  const int asked = request.parameters.at("width");
  const std::int64_t width = asked == 0 ? hyb_width(matrix) : std::min<std::int64_t>(asked, longest_row(matrix));
  return hyb_places_reason(width, matrix.num_rows, matrix.nnz());
}

}  // namespace

std::string hyb_places_reason(std::int64_t width, std::int64_t num_rows, std::int64_t nnz) {
  const std::string reason = padding_reason(width * num_rows, nnz);
  if (!reason.empty()) return reason;
  const bool fits = std::max(width * (num_rows + 31), nnz) <= std::numeric_limits<std::int32_t>::max();
  return fits ? "" : "needs fewer than 2^31 places";
}

product_kernel spmv_hyb_fused() {
  return {
      .op = operation::spmv,
      .name = "fused",
      .format = "hyb",
      .summary =
          "HYB of Bell and Garland 2009 in one launch: the warp of a slice of ELL also adds the entries of its rows in "
          "COO.",
      .source = "Bell and Garland 2009",
      .layouts = {layout::column_major},
      .parameters = {{"width",
                      0,
                      {0, 1, 2, 4, 8, 16, 32, 64},
                      {0},
                      true,
                      "entries of a row that ELL holds; 0: as many as max(a third of the rows, 4096) rows fill"},
                     {"threads_per_row", 1, {1, 2, 4, 8}, {1, 2, 4}, false, "threads that share a row of ELL"}},
      .dtypes = all_value_types,
      .permutes = false,
      .from_device = true,
      .redundant = too_many_threads_per_row,
      .unsupported_reason = no_reason,
      .pattern_reason = hyb_reason,
      .prepare_cpu = prepare_cpu,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_hyb_fused),
  };
}

}  // namespace warploom
