// The rows of a matrix in the order and form in which an SpMM kernel reads them: what CSR and DCSR, permuted or not,
// have in common at that point.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "warploom/csr_view.hpp"
#include "warploom/formats/csr.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

// Stored row p has the nonzeros indptr[p] .. indptr[p+1] and produces row row_ids[p] of C (row p if `row_ids` is
// empty). Rows of C that no stored row produces are zero.
struct row_storage {
  std::int64_t num_rows = 0;  // of A and C
  std::int64_t num_cols = 0;
  value_type dtype = value_type::float32;
  std::vector<std::int64_t> indptr;   // [number of stored rows + 1]
  std::vector<std::int32_t> row_ids;  // [number of stored rows] or empty
  const std::int32_t* indices = nullptr;
  const void* data = nullptr;
  std::shared_ptr<const csr_matrix> owner;  // of indices and data, unless they are the caller's

  std::int64_t num_stored_rows() const { return static_cast<std::int64_t>(indptr.size()) - 1; }
  std::int64_t nnz() const { return indptr.back(); }
  bool stores_every_row() const { return num_stored_rows() == num_rows; }
  // Once `owner` has them; see own_arrays.
  value_array own_values() const { return {const_cast<void*>(data), nnz()}; }
};

// `perm` may be empty (the original order). `indices` and `data` refer to `matrix` unless rows were moved: enough for a
// plan that copies them to a GPU or into another format.
row_storage store_all_rows(const csr_view& matrix, std::span<const std::int32_t> perm);       // CSR
row_storage store_nonempty_rows(const csr_view& matrix, std::span<const std::int32_t> perm);  // DCSR

// The same rows with `indices` and `data` of their own, whatever becomes of the arrays they were made from. For plans
// that keep them: the caller may change a matrix after it was validated, as SciPy does itself when it sums duplicates.
row_storage own_arrays(row_storage rows);

}  // namespace warploom
