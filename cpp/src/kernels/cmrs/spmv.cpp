// SpMV through CMRS: one thread for each strip, with a sum for each of its rows, from the strip's first place to its
// last.
#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/cmrs/options.hpp"
#include "kernels/cpu/format_plan.hpp"
#include "kernels/description.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmv_cmrs_basic;
prepare_cuda_function prepare_cuda_spmv_cmrs_modified;
prepare_cuda_function prepare_cuda_spmv_cmrs_registers;

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

std::unique_ptr<product_plan> prepare_cpu(const csr_view& matrix, const product_request& request) {
  return std::make_unique<cpu_cmrs_plan>(to_cmrs(matrix, cmrs_options_of(request.parameters)));
}

constexpr int max_packed_height = 1 << cmrs_matrix::row_bits;
constexpr std::int64_t max_places = std::numeric_limits<std::int32_t>::max();

const parameter sort_columns{"sort_columns", 0,    {0, 1},
                             {0, 1},         true, "1: the entries of a strip are sorted by column (Sec. 4)"};
const parameter packed{"packed", 1, {0, 1}, {1}, true, "1: column and row within the strip share one word"};

std::string needs_fewer_columns(const matrix_summary& matrix, const cmrs_options& options, const char* way_out) {
  if (!options.packed || matrix.num_cols <= cmrs_packed_columns(options)) return "";
  return "packs a column into 28 bits, and the matrix has more columns; " + std::string(way_out) +
         " stores them unpacked";
}

std::string strips_reason(const matrix_summary& matrix, const product_request& request) {
  const std::string reason = needs_int32_offsets(matrix, request);
  return !reason.empty() ? reason : needs_fewer_columns(matrix, cmrs_options_of(request.parameters), "packed=0");
}

std::string groups_reason(const matrix_summary& matrix, const product_request& request) {
  return needs_fewer_columns(matrix, cmrs_options_of(request.parameters), "height=32");
}

std::string places_reason(const csr_view& matrix, const product_request& request) {
  const cmrs_options options = cmrs_options_of(request.parameters);
  // A nonzero takes no more places than a group has: only large matrices have to be counted.
  const bool fits = matrix.nnz() <= max_places / cmrs_matrix::group_size || cmrs_places(matrix, options) <= max_places;
  return fits ? "" : "needs fewer than 2^31 places, padding included";
}

}  // namespace

cmrs_options cmrs_options_of(const parameter_values& parameters) {
  const auto value = [&](const char* name, int otherwise) {
    const auto found = parameters.find(name);
    return found == parameters.end() ? otherwise : found->second;
  };
  cmrs_options options;
  options.height = parameters.at("height");
  options.packed = value("packed", options.height <= max_packed_height) != 0;
  options.sort_columns = value("sort_columns", 0) != 0;
  options.modulo = value("modulo", 0);
  return options;
}

product_kernel spmv_cmrs_basic() {
  return {
      .op = operation::spmv,
      .name = "basic",
      .format = "cmrs",
      .summary = "CMRS of Koza et al. 2014, Algorithm 1: a warp for each strip, partial sums in shared memory.",
      .source = "Koza et al. 2014, Algorithm 1",
      .layouts = {layout::column_major},
      .parameters = {{"height", 8, {1, 2, 4, 8, 16}, {4, 8}, true, "rows of a strip"}, sort_columns, packed},
      .dtypes = all_value_types,
      .permutes = false,
      .from_device = true,
      .unsupported_reason = strips_reason,
      .prepare_cpu = prepare_cpu,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_cmrs_basic),
  };
}

product_kernel spmv_cmrs_modified() {
  return {
      .op = operation::spmv,
      .name = "modified",
      .format = "cmrs",
      .summary =
          "CMRS of Koza et al. 2014, Sec. 6.7: strips padded to groups of 32, `modulo` partial sums for each row.",
      .source = "Koza et al. 2014, Sec. 6.7",
      .layouts = {layout::column_major},
      .parameters =
          {{"height", 16, {8, 16, 32, 64}, {16, 32}, true, "rows of a strip; more than 16 are stored unpacked"},
           {"modulo", 8, {4, 8, 16}, {8}, true, "maximum number of entries of a row in a group of 32"}},
      .dtypes = all_value_types,
      .permutes = false,
      .unsupported_reason = groups_reason,
      .pattern_reason = places_reason,
      .prepare_cpu = prepare_cpu,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_cmrs_modified),
  };
}

product_kernel spmv_cmrs_registers() {
  return {
      .op = operation::spmv,
      .name = "registers",
      .format = "cmrs",
      .summary = "CMRS strips summed in registers: each thread keeps a sum of every row, added up with shuffles.",
      .source = "own",
      .layouts = {layout::column_major},
      .parameters = {{"height", 4, {2, 4, 8}, {2, 4, 8}, true, "rows of a strip"},
                     {"threads_per_strip",
                      32,
                      {2, 4, 8, 16, 32},
                      {8, 16, 32},
                      false,
                      "threads that share a strip, or `height` if that is more"},
                     sort_columns,
                     packed},
      .dtypes = all_value_types,
      .permutes = false,
      .from_device = true,
      .unsupported_reason = strips_reason,
      .prepare_cpu = prepare_cpu,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_cmrs_registers),
  };
}

}  // namespace warploom
