// SpMV through column panels: ranges of rows in parallel, each row summed panel by panel, so that the result does not
// depend on the number of threads.
#include <algorithm>
#include <array>

#include "kernels/column_panels/panel_size.hpp"
#include "kernels/cpu/format_plan.hpp"
#include "kernels/description.hpp"
#include "warploom/formats/column_panels.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmv_column_panels_shared_x;

namespace {

constexpr std::int64_t row_blocks_per_range = 16;

class cpu_column_panels_plan final : public cpu_format_plan<cpu_column_panels_plan, column_panels_matrix> {
 public:
  // Row r of the matrix is row row_ids[r] of the product; without `row_ids`, row r.
  cpu_column_panels_plan(column_panels_matrix matrix, std::span<const std::int32_t> row_ids)
      : cpu_format_plan(std::move(matrix)),
        row_ids_(row_ids.begin(), row_ids.end()),
        places_(row_block_places(matrix_, row_blocks_per_range)) {}

  template <class Value>
  void multiply_values(const Value* x, Value* y) const {
    constexpr std::int64_t work_per_thread = 1 << 16;  // nonzeros and rows that are worth a thread
    const std::int64_t ranges = (matrix_.num_row_blocks() + row_blocks_per_range - 1) / row_blocks_per_range;
    if (ranges == 0) return;
    const std::int64_t work_per_range = std::max<std::int64_t>(1, (matrix_.nnz() + matrix_.num_rows) / ranges);
    parallel_for(0, ranges, work_per_thread / work_per_range, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t range = begin; range < end; ++range) multiply_range(range, x, y);
    });
  }

  std::size_t bytes() const override { return matrix_.bytes() + places_.size() * sizeof(places_[0]); }

 private:
  template <class Value>
  void multiply_range(std::int64_t range, const Value* x, Value* y) const {
    const std::int64_t first = range * row_blocks_per_range;
    const std::int64_t last = std::min(matrix_.num_row_blocks(), first + row_blocks_per_range);
    const std::int64_t first_row = first * rows_per_mask;
    std::array<accumulator_t<Value>, row_blocks_per_range * rows_per_mask> sums{};
    const Value* values = reinterpret_cast<const Value*>(matrix_.data.data());
    for (std::int64_t p = 0; p < matrix_.num_panels(); ++p) {
      const Value* panel_x = x + p * matrix_.panel_columns;
      for_each_row_of_panel(matrix_, p, first, last, places_[range * matrix_.num_panels() + p],
                            [&](std::int64_t row, std::int64_t begin, std::int64_t end) {
                              accumulator_t<Value> sum = 0;
                              for (; begin < end; ++begin) sum += values[begin] * panel_x[matrix_.columns[begin]];
                              sums[row - first_row] += sum;
                            });
    }
    const std::int64_t rows = std::min(matrix_.num_rows - first_row, (last - first) * rows_per_mask);
    for (std::int64_t r = 0; r < rows; ++r) {
      y[row_ids_.empty() ? first_row + r : row_ids_[first_row + r]] = Value(sums[r]);
    }
  }

  std::vector<std::int32_t> row_ids_;

  std::vector<std::int64_t> places_;  // of the first row of every range in every panel
};

std::unique_ptr<product_plan> prepare_cpu(const csr_view& matrix, const product_request& request) {
  const std::int32_t columns = panel_columns(matrix.num_cols, matrix.dtype, requested_panel_bytes(request));
  if (request.perm.empty()) {
    return std::make_unique<cpu_column_panels_plan>(to_column_panels(matrix, columns), request.perm);
  }
  const csr_matrix moved = permute_rows(matrix, request.perm);
  return std::make_unique<cpu_column_panels_plan>(to_column_panels(moved.view(), columns), request.perm);
}

// With more, the cost of the panels (their parts of x, and the partial sums of a row in each) outweighs what they save.
constexpr std::int64_t max_panels = 64;

std::string shared_x_unsupported(const matrix_summary& matrix, const product_request& request) {
  const std::int64_t width = panel_columns(matrix.num_cols, matrix.dtype, requested_panel_bytes(request));
  const std::int64_t panels = (matrix.num_cols + width - 1) / width;
  if (panels > max_panels) {
    return "has too many columns: " + std::to_string(panels) + " panels of x, at most " + std::to_string(max_panels);
  }
  return needs_int32_offsets(matrix, request);
}

}  // namespace

product_kernel spmv_column_panels_shared_x() {
  return {
      .op = operation::spmv,
      .name = "shared_x",
      .format = "column-panels",
      .summary =
          "A thread block keeps a panel of x in shared memory and sums the rows of its tiles of the panel; a second "
          "launch adds the partial sums of a row over the panels. For large irregular matrices.",
      .source = "own",
      .layouts = {layout::column_major},
      .parameters =
          {{"panel_kb",
            224,
            {1, 16, 64, 96, 144, 224},
            {96, 224},
            true,
            "kilobytes of x in a panel, limited by the shared memory of the GPU and by 16-bit column numbers"}},
      .dtypes = all_value_types,
      .from_device = true,
      .for_large = true,
      // To load a part of x for all nonzeros takes longer than to fetch what a few of them need.
      .hopeless = [](const matrix_summary& matrix) { return matrix.nnz < 200'000; },
      .unsupported_reason = shared_x_unsupported,
      .prepare_cpu = prepare_cpu,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_column_panels_shared_x),
  };
}

}  // namespace warploom
