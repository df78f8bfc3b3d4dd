#include "kernels/csr/row_storage.hpp"

#include <cstddef>
#include <utility>

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
    rows.owner = std::make_shared<const csr_matrix>(permute_rows(matrix, perm));
    rows.indices = rows.owner->indices.data();
    rows.data = rows.owner->data.data();
  }
  return rows;
}

}  // namespace

row_storage store_all_rows(const csr_view& matrix, std::span<const std::int32_t> perm) {
  row_storage rows = start(matrix, perm);
  const std::int64_t* indptr = rows.owner ? rows.owner->indptr.data() : matrix.indptr;
  rows.indptr.assign(indptr, indptr + matrix.num_rows + 1);
  rows.row_ids.assign(perm.begin(), perm.end());
  return rows;
}

row_storage store_nonempty_rows(const csr_view& matrix, std::span<const std::int32_t> perm) {
  row_storage rows = start(matrix, perm);
  const std::int64_t* indptr = rows.owner ? rows.owner->indptr.data() : matrix.indptr;
  rows.indptr.push_back(0);
  for (std::int64_t p = 0; p < matrix.num_rows; ++p) {
    if (indptr[p + 1] == indptr[p]) continue;
    rows.row_ids.push_back(perm.empty() ? static_cast<std::int32_t>(p) : perm[p]);
    rows.indptr.push_back(indptr[p + 1]);
  }
  return rows;
}

row_storage own_arrays(row_storage rows) {
  if (rows.owner) return rows;
  auto copies = std::make_shared<csr_matrix>();
  copies->indptr.clear();  // `rows` has one of its own
  copies->indices.assign(rows.indices, rows.indices + rows.nnz());
  const auto* values = static_cast<const std::byte*>(rows.data);
  copies->data.assign(values, values + rows.nnz() * size_of(rows.dtype));
  rows.indices = copies->indices.data();
  rows.data = copies->data.data();
  rows.owner = std::move(copies);
  return rows;
}

}  // namespace warploom
