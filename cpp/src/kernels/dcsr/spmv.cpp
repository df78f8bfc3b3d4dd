// SpMV through DCSR, for hypersparse matrices: an empty row costs nothing but its zero in y.
#include <algorithm>
#include <utility>

#include "kernels/cpu/format_plan.hpp"
#include "kernels/csr/row_storage.hpp"
#include "kernels/csr/row_sums.hpp"
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
    static const row_sums_function<Value, std::int64_t> add_rows = row_sums_for_this_cpu<Value, std::int64_t>();
    const csr_rows_view<Value, std::int64_t> rows{matrix_.indptr.data(), matrix_.indices,
                                                  static_cast<const Value*>(matrix_.data), matrix_.row_ids.data()};
    for_each_range([&](std::int64_t begin, std::int64_t end) { add_rows(rows, begin, end, x, y); });
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
      .tried_on_cpu = true,
      .first_on_cpu = parameter_values{},
      .hopeless = [](const matrix_summary& matrix) { return 2 * matrix.empty_rows < matrix.num_rows; },
      .redundant = too_many_threads_per_row,
      .unsupported_reason = needs_int32_offsets,
      .prepare_cpu = prepare_cpu,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_dcsr_vector),
  };
}

}  // namespace warploom
