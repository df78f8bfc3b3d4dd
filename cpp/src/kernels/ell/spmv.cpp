// SpMV through ELL: a few rows at a time, column after column.
#include <algorithm>
#include <array>
#include <limits>

#include "kernels/cpu/format_plan.hpp"
#include "kernels/description.hpp"
#include "kernels/sell/columns.hpp"
#include "warploom/formats/ell.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmv_ell_vector;

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
                     if (matrix_.width > 0) {
                       add_columns<Value>(sums.data(), count, matrix_.width, matrix_.indices.data() + first,
                                          values + first, matrix_.num_rows, x);
                     }
                     for (std::int64_t r = 0; r < count; ++r) y[first + r] = Value(sums[r]);
                   }
                 });
  }
};

std::unique_ptr<product_plan> prepare_cpu(const csr_view& matrix, const product_request&) {
  return std::make_unique<cpu_ell_plan>(to_ell_of_width(matrix, longest_row(matrix)));
}

// Slices of the kernel are padded to their full height.
constexpr std::int64_t max_places = std::numeric_limits<std::int32_t>::max();

std::string ell_reason(const matrix_summary& matrix, const product_request& request) {
  if (!request.perm.empty()) return "does not take a row permutation";
  const std::int64_t width = matrix.longest_row;
  const std::int64_t places = width * matrix.num_rows;
  const std::string reason = padding_reason(places, matrix.nnz);
  if (!reason.empty()) return reason;
  return width * (matrix.num_rows + 31) > max_places ? "needs fewer than 2^31 places" : "";
}

}  // namespace

product_kernel spmv_ell_vector() {
  return {
      .op = operation::spmv,
      .name = "vector",
      .format = "ell",
      .summary = "ELL of Bell and Garland 2009 with threads_per_row threads for each row, without row offsets.",
      .source = "Bell and Garland 2009",
      .layouts = {layout::column_major},
      .parameters = {{"threads_per_row", 1, {1, 2, 4, 8}, {1, 2, 4, 8}, false, "threads that share a row"}},
      .dtypes = all_value_types,
      .permutes = false,
      .from_device = true,
      .redundant = too_many_threads_per_row,
      .unsupported_reason = ell_reason,
      .prepare_cpu = prepare_cpu,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_ell_vector),
  };
}

}  // namespace warploom
