#include "kernels/csr/row_storage.hpp"

namespace warploom {
namespace {

row_storage start(const csr_view& matrix, std::span<const std::int32_t> perm) {
  row_storage rows;
  rows.num_rows = matrix.num_rows;
  rows.num_cols = matrix.num_cols;
  rows.dtype = matrix.dtype;
  rows.indices = matrix.indices;
  rows.data = matrix.data;
  if (!perm.empty()) {
    rows.permuted = std::make_shared<const csr_matrix>(permute_rows(matrix, perm));
    rows.indices = rows.permuted->indices.data();
    rows.data = rows.permuted->data.data();
  }
  return rows;
}

}  // namespace

row_storage store_all_rows(const csr_view& matrix, std::span<const std::int32_t> perm) {
  row_storage rows = start(matrix, perm);
  const std::int64_t* indptr = rows.permuted ? rows.permuted->indptr.data() : matrix.indptr;
  rows.indptr.assign(indptr, indptr + matrix.num_rows + 1);
  rows.row_ids.assign(perm.begin(), perm.end());
  return rows;
}

row_storage store_nonempty_rows(const csr_view& matrix, std::span<const std::int32_t> perm) {
  row_storage rows = start(matrix, perm);
  const std::int64_t* indptr = rows.permuted ? rows.permuted->indptr.data() : matrix.indptr;
  rows.indptr.push_back(0);
  for (std::int64_t p = 0; p < matrix.num_rows; ++p) {
    if (indptr[p + 1] == indptr[p]) continue;
    rows.row_ids.push_back(perm.empty() ? static_cast<std::int32_t>(p) : perm[p]);
    rows.indptr.push_back(indptr[p + 1]);
  }
  return rows;
}

}  // namespace warploom
