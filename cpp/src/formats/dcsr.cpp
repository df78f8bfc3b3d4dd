#include "warploom/formats/dcsr.hpp"

#include <cstring>

namespace warploom {
namespace {

template <class To, class From>
void copy_bytes(std::vector<To>& to, const From* from, std::size_t bytes) {
  to.resize(bytes / sizeof(To));
  if (bytes > 0) std::memcpy(to.data(), from, bytes);
}

}  // namespace

std::size_t dcsr_matrix::bytes() const {
  return row_ids.size() * sizeof(row_ids[0]) + indptr.size() * sizeof(indptr[0]) + indices.size() * sizeof(indices[0]) +
         data.size();
}

dcsr_matrix to_dcsr(const csr_view& matrix) {
  dcsr_matrix result;
  result.num_rows = matrix.num_rows;
  result.num_cols = matrix.num_cols;
  result.dtype = matrix.dtype;
  result.indptr.push_back(0);
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) {
    if (matrix.row_length(row) == 0) continue;
    result.row_ids.push_back(static_cast<std::int32_t>(row));
    result.indptr.push_back(matrix.indptr[row + 1]);
  }
  copy_bytes(result.indices, matrix.indices, matrix.nnz() * sizeof(std::int32_t));
  copy_bytes(result.data, static_cast<const std::byte*>(matrix.data), matrix.nnz() * size_of(matrix.dtype));
  return result;
}

csr_matrix to_csr(const dcsr_matrix& matrix) {
  csr_matrix result;
  result.num_rows = matrix.num_rows;
  result.num_cols = matrix.num_cols;
  result.dtype = matrix.dtype;
  result.indptr.assign(matrix.num_rows + 1, 0);
  for (std::size_t p = 0; p < matrix.row_ids.size(); ++p) {
    result.indptr[matrix.row_ids[p] + 1] = matrix.indptr[p + 1] - matrix.indptr[p];
  }
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) result.indptr[row + 1] += result.indptr[row];
  result.indices = matrix.indices;
  result.data = matrix.data;
  return result;
}

}  // namespace warploom
