#include "warploom/formats/dcsr.hpp"

#include <numeric>

#include "warploom/formats/format.hpp"

namespace warploom {

std::size_t dcsr_matrix::bytes() const {
  return row_ids.size() * sizeof(row_ids[0]) + indptr.size() * sizeof(indptr[0]) + indices.size() * sizeof(indices[0]) +
         data.size();
}

dcsr_matrix to_dcsr(const csr_view& matrix) {
  dcsr_matrix result;
  result.num_rows = matrix.num_rows;
  result.num_cols = matrix.num_cols;
  result.dtype = matrix.dtype;

  // Counted first: growing by doubling could take twice the memory of a matrix that has hardly any empty rows.
  std::int64_t filled = 0;
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) filled += matrix.row_length(row) != 0;
  result.row_ids.reserve(filled);
  result.indptr.reserve(filled + 1);
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) {
    if (matrix.row_length(row) == 0) continue;
    result.row_ids.push_back(static_cast<std::int32_t>(row));
    result.indptr.push_back(matrix.indptr[row + 1]);
  }

  // Nonzeros are those of the CSR matrix. `assign` writes each byte once, where resizing for a parallel copy would
  // clear all of them first, on one thread.
  const auto* values = static_cast<const std::byte*>(matrix.data);
  result.indices.assign(matrix.indices, matrix.indices + matrix.nnz());
  result.data.assign(values, values + matrix.nnz() * size_of(matrix.dtype));
  return result;
}

csr_matrix to_csr(const dcsr_matrix& matrix) {
  csr_matrix result = empty_csr(matrix.num_rows, matrix.num_cols, matrix.dtype);
  for (std::size_t p = 0; p < matrix.row_ids.size(); ++p) {
    result.indptr[matrix.row_ids[p] + 1] = matrix.indptr[p + 1] - matrix.indptr[p];
  }
  std::partial_sum(result.indptr.begin(), result.indptr.end(), result.indptr.begin());
  result.indices = matrix.indices;
  result.data = matrix.data;
  return result;
}

std::vector<format_field> dcsr_matrix::fields() const {
  return {
      {"row_ids", array_of(row_ids)},
      {"indptr", array_of(indptr)},
      {"indices", array_of(indices)},
      {"data", array_of(data, dtype)},
  };
}

format_description dcsr_format() {
  return {
      .name = "dcsr",
      .from_csr = [](const csr_view& matrix, const option_values&) { return stored(to_dcsr(matrix)); },
  };
}

}  // namespace warploom
