// SpMV through SELL-C-sigma: slice after slice, column after column, with adjacent sums of a slice.
#include <algorithm>
#include <limits>

#include "kernels/cpu/format_plan.hpp"
#include "kernels/description.hpp"
#include "kernels/sell/columns.hpp"
#include "kernels/sell/slice_height.hpp"
#include "warploom/formats/sell.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmv_sell_vector;

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

std::unique_ptr<product_plan> prepare_cpu(const csr_view& matrix, const product_request& request) {
  return std::make_unique<cpu_sell_plan>(
      to_sell(matrix, sell_slice_height(request), request.parameters.at("sort_window")));
}

std::string sell_reason(const csr_view& matrix, const product_request& request) {
  return sell_places_reason(sell_places(matrix, sell_slice_height(request), request.parameters.at("sort_window")),
                            matrix.nnz());
}

}  // namespace

std::string sell_places_reason(std::int64_t places, std::int64_t nnz) {
  const std::string reason = padding_reason(places, nnz);
  if (!reason.empty()) return reason;
  return places > std::numeric_limits<std::int32_t>::max() ? "needs fewer than 2^31 places" : "";
}

product_kernel spmv_sell_vector() {
  return {
      .op = operation::spmv,
      .name = "vector",
      .format = "sell",
      .summary =
          "SELL-C-sigma with a warp for each slice of 32 / threads_per_row rows: every load of the matrix is "
          "coalesced.",
      .source = "Monakov et al. 2010, Kreutzer et al. 2014",
      .layouts = {layout::column_major},
      .parameters = {{"threads_per_row", 1, {1, 2, 4, 8, 16}, {1, 2, 4, 8}, true, "threads that share a row"},
                     {"sort_window",
                      1,
                      {1, 256, 4096, 65536},
                      {1, 256, 4096},
                      true,
                      "consecutive rows that are sorted by length; 1: not sorted"}},
      .dtypes = all_value_types,
      .permutes = false,
      .from_device = true,
      .tried_on_cpu = true,
      .first_on_cpu = parameter_values{{"threads_per_row", 2}, {"sort_window", 4096}},
      .redundant = too_many_threads_per_row,
      .unsupported_reason = no_reason,
      .pattern_reason = sell_reason,
      .prepare_cpu = prepare_cpu,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_sell_vector),
  };
}

}  // namespace warploom
