// SpMV through CSR: rows in ranges of about equal numbers of nonzeros, each summed by one thread from its first nonzero
// to its last, so that the result does not depend on the number of threads.
#include "kernels/csr/spmv.hpp"

#include "kernels/cpu/format_plan.hpp"
#include "kernels/csr/row_storage.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmv_csr_scalar;
prepare_cuda_function prepare_cuda_spmv_csr_vector;

namespace {

struct csr_rows : row_storage {
  std::size_t bytes() const {
    return indptr.size() * sizeof(indptr[0]) + row_ids.size() * sizeof(row_ids[0]) + owner->bytes();
  }
};

class cpu_csr_plan final : public cpu_balanced_plan<cpu_csr_plan, csr_rows> {
 public:
  explicit cpu_csr_plan(row_storage rows) : cpu_balanced_plan({own_arrays(std::move(rows))}) {
    ranges_ = balance_work(matrix_.num_rows, [&](std::int64_t p) { return matrix_.indptr[p + 1] - matrix_.indptr[p]; });
  }

  std::vector<value_array> value_arrays() override { return {matrix_.own_values()}; }

  template <class Value>
  void multiply_values(const Value* x, Value* y) const {
    const row_storage& A = matrix_;
    const Value* values = static_cast<const Value*>(A.data);
    for_each_range([&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) {
        accumulator_t<Value> sum = 0;
        for (std::int64_t j = A.indptr[p]; j < A.indptr[p + 1]; ++j) sum += values[j] * x[A.indices[j]];
        y[A.row_ids.empty() ? p : A.row_ids[p]] = Value(sum);
      }
    });
  }
};

}  // namespace

std::unique_ptr<product_plan> prepare_cpu_spmv_csr(const csr_view& matrix, const product_request& request) {
  return std::make_unique<cpu_csr_plan>(store_all_rows(matrix, request.perm));
}

product_kernel spmv_csr_scalar() {
  return {
      .op = operation::spmv,
      .name = "scalar",
      .format = "csr",
      .summary = "CSR-scalar of Bell and Garland 2009: one thread for each row.",
      .source = "Bell and Garland 2009",
      .layouts = {layout::column_major},
      .parameters = {},
      .dtypes = all_value_types,
      .from_device = true,
      .unsupported_reason = no_reason,
      .prepare_cpu = prepare_cpu_spmv_csr,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_csr_scalar),
  };
}

product_kernel spmv_csr_vector() {
  return {
      .op = operation::spmv,
      .name = "vector",
      .format = "csr",
      .summary =
          "CSR-vector of Bell and Garland 2009: threads_per_row neighbouring threads share the nonzeros of a row.",
      .source = "Bell and Garland 2009",
      .layouts = {layout::column_major},
      .parameters = {{"threads_per_row", 32, {2, 4, 8, 16, 32}, {2, 4, 8, 16, 32}, false, "threads that share a row"}},
      .dtypes = all_value_types,
      .from_device = true,
      .compared_fully = true,  // Gao et al. 2024 compare every number of threads per row
      .baseline_for = {layout::column_major},
      .redundant = too_many_threads_per_row,
      .unsupported_reason = no_reason,
      .prepare_cpu = prepare_cpu_spmv_csr,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_csr_vector),
  };
}

}  // namespace warploom
