// SpMV through CSR: rows in ranges of about equal numbers of nonzeros, each summed by one thread, so that the result
// does not depend on the number of threads.
#include "kernels/csr/spmv.hpp"

#include <limits>
#include <span>

#include "huge_page_allocator.hpp"
#include "kernels/cpu/format_plan.hpp"
#include "kernels/csr/row_sums.hpp"

namespace warploom {

prepare_cuda_function prepare_cuda_spmv_csr_scalar;
prepare_cuda_function prepare_cuda_spmv_csr_vector;

namespace {

// Rows in the order of a permutation, in arrays of their own: large ones on huge pages, with offsets as narrow as they
// can be.
struct stored_rows {
  value_type dtype;
  huge_vector<std::int32_t> indptr;       // [rows + 1], or empty where
  huge_vector<std::int64_t> wide_indptr;  // nonzeros need 64 bits
  huge_vector<std::int32_t> row_ids;      // [rows] or empty
  huge_vector<std::int32_t> indices;
  huge_vector<std::byte> data;

  std::size_t bytes() const {
    return indptr.size() * sizeof(indptr[0]) + wide_indptr.size() * sizeof(wide_indptr[0]) +
           row_ids.size() * sizeof(row_ids[0]) + indices.size() * sizeof(indices[0]) + data.size();
  }
};

template <class Offset>
huge_vector<Offset> offsets_of_rows(const csr_view& matrix, std::span<const std::int32_t> perm) {
  if (perm.empty()) return {matrix.indptr, matrix.indptr + matrix.num_rows + 1};
  huge_vector<Offset> indptr(matrix.num_rows + 1);
  for (std::int64_t p = 0; p < matrix.num_rows; ++p) {
    indptr[p + 1] = static_cast<Offset>(indptr[p] + matrix.row_length(perm[p]));
  }
  return indptr;
}

stored_rows store(const csr_view& matrix, std::span<const std::int32_t> perm) {
  const std::size_t size = size_of(matrix.dtype);
  const auto* values = static_cast<const std::byte*>(matrix.data);
  stored_rows rows{matrix.dtype, {}, {}, {perm.begin(), perm.end()}, {}, {}};
  if (matrix.nnz() <= std::numeric_limits<std::int32_t>::max()) {
    rows.indptr = offsets_of_rows<std::int32_t>(matrix, perm);
  } else {
    rows.wide_indptr = offsets_of_rows<std::int64_t>(matrix, perm);
  }
  if (perm.empty()) {
    rows.indices.assign(matrix.indices, matrix.indices + matrix.nnz());
    rows.data.assign(values, values + matrix.nnz() * size);
    return rows;
  }
  rows.indices.reserve(matrix.nnz());
  rows.data.reserve(matrix.nnz() * size);
  for (const std::int32_t row : perm) {
    const std::int64_t begin = matrix.indptr[row], end = matrix.indptr[row + 1];
    rows.indices.insert(rows.indices.end(), matrix.indices + begin, matrix.indices + end);
    rows.data.insert(rows.data.end(), values + begin * size, values + end * size);
  }
  return rows;
}

class cpu_csr_plan final : public cpu_balanced_plan<cpu_csr_plan, stored_rows> {
 public:
  cpu_csr_plan(const csr_view& matrix, std::span<const std::int32_t> perm)
      : cpu_balanced_plan(store(matrix, perm)), lengths_(regularity(matrix)) {
    ranges_ = balance_work(matrix.num_rows,
                           [&](std::int64_t p) { return matrix.row_length(perm.empty() ? p : std::int64_t{perm[p]}); });
  }

  template <class Value>
  void multiply_values(const Value* x, Value* y) const {
    if (matrix_.wide_indptr.empty()) {
      multiply_rows(matrix_.indptr.data(), x, y);
    } else {
      multiply_rows(matrix_.wide_indptr.data(), x, y);
    }
  }

 private:
  const row_lengths_are lengths_;  // of the matrix in its own order, so that a permutation changes no sum

  template <class Value, class Offset>
  void multiply_rows(const Offset* indptr, const Value* x, Value* y) const {
    const row_sums_function<Value, Offset> add_rows = row_sums_for_this_cpu<Value, Offset>(lengths_);
    const csr_rows_view<Value, Offset> rows{indptr, matrix_.indices.data(),
                                            reinterpret_cast<const Value*>(matrix_.data.data()),
                                            matrix_.row_ids.empty() ? nullptr : matrix_.row_ids.data()};
    for_each_range([&](std::int64_t begin, std::int64_t end) { add_rows(rows, begin, end, x, y); });
  }
};

}  // namespace

std::unique_ptr<product_plan> prepare_cpu_spmv_csr(const csr_view& matrix, const product_request& request) {
  return std::make_unique<cpu_csr_plan>(matrix, request.perm);
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
      .tried_on_cpu = true,
      .baseline_for = {layout::column_major},
      .redundant = too_many_threads_per_row,
      .unsupported_reason = no_reason,
      .prepare_cpu = prepare_cpu_spmv_csr,
      .prepare_cuda = WARPLOOM_CUDA(prepare_cuda_spmv_csr_vector),
  };
}

}  // namespace warploom
