// SpMV through DCSR, for hypersparse matrices: an empty row costs nothing but its zero in y.
#include <algorithm>
#include <utility>

#include "kernels/cpu/format_plan.hpp"
#include "kernels/csr/row_storage.hpp"
#include "kernels/description.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmv_dcsr_vector;

namespace {

struct nonempty_rows : row_storage {
  std::size_t bytes() const {
    return indptr.size() * sizeof(indptr[0]) + row_ids.size() * sizeof(row_ids[0]) + owner->bytes();
  }
};

class cpu_dcsr_plan final : public cpu_balanced_plan<cpu_dcsr_plan, nonempty_rows> {
 public:
  explicit cpu_dcsr_plan(row_storage rows) : cpu_balanced_plan({own_arrays(std::move(rows))}) {
    ranges_ = balance_work(matrix_.num_stored_rows(),
                           [&](std::int64_t p) { return matrix_.indptr[p + 1] - matrix_.indptr[p]; });
  }

  std::vector<value_array> value_arrays() override { return {matrix_.own_values()}; }

  template <class Value>
  void multiply_values(const Value* x, Value* y) const {
    constexpr std::int64_t zeros_per_thread = 1 << 16;
    parallel_for(0, matrix_.num_rows, zeros_per_thread,
                 [&](std::int64_t begin, std::int64_t end) { std::fill(y + begin, y + end, Value(0)); });
    const Value* values = static_cast<const Value*>(matrix_.data);
    for_each_range([&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) {
        accumulator_t<Value> sum = 0;
        for (std::int64_t j = matrix_.indptr[p]; j < matrix_.indptr[p + 1]; ++j) {
          sum += values[j] * x[matrix_.indices[j]];
        }
        y[matrix_.row_ids[p]] = Value(sum);
      }
    });
  }
};

std::unique_ptr<product_plan> prepare_cpu(const csr_view& matrix, const product_request& request) {
  return std::make_unique<cpu_dcsr_plan>(store_nonempty_rows(matrix, request.perm));
}

}  // namespace

product_kernel spmv_dcsr_vector() {
  return {
      .op = operation::spmv,
      .name = "vector",
      .format = "dcsr",
      .summary =
          "CSR-vector on the rows that have nonzeros, while all threads clear the others in y. For hypersparse "
          "matrices.",
      .source = "own",
      .layouts = {layout::column_major},
      .parameters = {{"threads_per_row", 4, {2, 4, 8, 16, 32}, {2, 4, 8, 16, 32}, false, "threads that share a row"}},
      .dtypes = all_value_types,
      // A row that is stored costs more than in CSR: the number of the row beside its offset.
      .from_device = true,
      .hopeless = [](const matrix_summary& matrix) { return 2 * matrix.empty_rows < matrix.num_rows; },
      .redundant = too_many_threads_per_row,
      .unsupported_reason = needs_int32_offsets,
      .prepare_cpu = prepare_cpu,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_dcsr_vector),
  };
}

}  // namespace warploom
