// SpMV through COO: ranges of entries that start and end with a row, so that no two threads add to one row.
#include <algorithm>

#include "kernels/cpu/format_plan.hpp"
#include "kernels/description.hpp"
#include "warploom/formats/coo.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmv_coo_segmented_sum;

namespace {

constexpr std::int64_t entries_per_range = 4096;

class cpu_coo_plan final : public cpu_format_plan<cpu_coo_plan, coo_matrix> {
 public:
  explicit cpu_coo_plan(coo_matrix matrix) : cpu_format_plan(std::move(matrix)) {
    const std::vector<std::int64_t> offsets = row_offsets(matrix_);
    ranges_.push_back({0, 0});
    for (std::int64_t row = 0; row < matrix_.num_rows; ++row) {
      const std::int64_t work = offsets[row + 1] - ranges_.back().entry + row + 1 - ranges_.back().row;
      if (work >= entries_per_range || row + 1 == matrix_.num_rows) ranges_.push_back({row + 1, offsets[row + 1]});
    }
  }

  template <class Value>
  void multiply_values(const Value* x, Value* y) const {
    constexpr std::int64_t ranges_per_thread = 16;
    const auto* values = reinterpret_cast<const Value*>(matrix_.data.data());
    const auto ranges = static_cast<std::int64_t>(ranges_.size()) - 1;
    parallel_for(0, ranges, ranges_per_thread, [&](std::int64_t begin, std::int64_t end) {
      std::fill(y + ranges_[begin].row, y + ranges_[end].row, Value(0));
      const std::int64_t last = ranges_[end].entry;
      for (std::int64_t j = ranges_[begin].entry; j < last;) {
        const std::int32_t row = matrix_.row_indices[j];
        accumulator_t<Value> sum = 0;
        for (; j < last && matrix_.row_indices[j] == row; ++j) sum += values[j] * x[matrix_.indices[j]];
        y[row] = Value(sum);
      }
    });
  }

  std::size_t bytes() const override { return matrix_.bytes() + ranges_.size() * sizeof(start); }

 private:
  struct start {
    std::int64_t row;
    std::int64_t entry;
  };

  std::vector<start> ranges_;
};

std::unique_ptr<product_plan> prepare_cpu(const csr_view& matrix, const product_request&) {
  return std::make_unique<cpu_coo_plan>(to_coo(matrix));
}

std::string coo_reason(const matrix_summary& matrix, const product_request& request) {
  if (!request.perm.empty()) return "does not take a row permutation";
  // Parts of the matrix are padded by an eighth at most.
  return matrix.nnz > (std::int64_t{1} << 30) ? "needs at most 2^30 nonzeros" : "";
}

}  // namespace

product_kernel spmv_coo_segmented_sum() {
  return {
      .op = operation::spmv,
      .name = "segmented_sum",
      .format = "coo",
      .summary =
          "Segmented sums of Bell and Garland 2009 over equal parts of the nonzeros; partial sums of rows that several "
          "parts share are added in a fixed order.",
      .source = "Bell and Garland 2009",
      .layouts = {layout::column_major},
      .parameters = {{"items_per_thread", 4, {4, 8, 16}, {4, 8}, false, "consecutive nonzeros of each thread"}},
      .dtypes = all_value_types,
      .permutes = false,
      .from_device = true,
      .unsupported_reason = coo_reason,
      .prepare_cpu = prepare_cpu,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_coo_segmented_sum),
  };
}

}  // namespace warploom
