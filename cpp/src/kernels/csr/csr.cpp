#include "warploom/formats/csr.hpp"

#include <cstring>

#include "warploom/formats/format.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

csr_view csr_matrix::view() const {
  csr_view view;
  view.num_rows = num_rows;
  view.num_cols = num_cols;
  view.indptr = indptr.data();
  view.indices = indices.data();
  view.data = data.data();
  view.dtype = dtype;
  return view;
}

std::size_t csr_matrix::bytes() const {
  return indptr.size() * sizeof(indptr[0]) + indices.size() * sizeof(indices[0]) + data.size();
}

csr_matrix empty_csr(std::int64_t num_rows, std::int64_t num_cols, value_type dtype) {
  csr_matrix result;
  result.num_rows = num_rows;
  result.num_cols = num_cols;
  result.dtype = dtype;
  result.indptr.assign(num_rows + 1, 0);
  return result;
}

csr_matrix copy(const csr_view& matrix) {
  csr_matrix result;
  result.num_rows = matrix.num_rows;
  result.num_cols = matrix.num_cols;
  result.dtype = matrix.dtype;
  result.indptr.assign(matrix.indptr, matrix.indptr + matrix.num_rows + 1);
  result.indices.assign(matrix.indices, matrix.indices + matrix.nnz());
  const auto* values = static_cast<const std::byte*>(matrix.data);
  result.data.assign(values, values + matrix.nnz() * size_of(matrix.dtype));
  return result;
}

csr_matrix permute_rows(const csr_view& matrix, std::span<const std::int32_t> rows) {
  const auto num_rows = static_cast<std::int64_t>(rows.size());
  csr_matrix result = empty_csr(num_rows, matrix.num_cols, matrix.dtype);
  for (std::int64_t p = 0; p < num_rows; ++p) {
    result.indptr[p + 1] = result.indptr[p] + matrix.row_length(rows[p]);
  }
  const std::size_t value_size = size_of(matrix.dtype);
  result.indices.resize(result.indptr.back());
  result.data.resize(result.indptr.back() * value_size);
  const auto* values = static_cast<const std::byte*>(matrix.data);
  parallel_for(0, num_rows, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t from = matrix.indptr[rows[p]];
      const std::int64_t to = result.indptr[p];
      const std::int64_t length = result.indptr[p + 1] - to;
      if (length == 0) continue;  // memcpy needs valid pointers even for 0 bytes
      std::memcpy(result.indices.data() + to, matrix.indices + from, length * sizeof(std::int32_t));
      std::memcpy(result.data.data() + to * value_size, values + from * value_size, length * value_size);
    }
  });
  return result;
}

std::vector<format_field> csr_matrix::fields() const {
  return {
      {"indptr", array_of(indptr)},
      {"indices", array_of(indices)},
      {"data", array_of(data, dtype)},
  };
}

format_description csr_format() {
  return {
      .name = "csr",
      .from_csr = [](const csr_view& matrix, const option_values&) { return stored(copy(matrix)); },
  };
}

}  // namespace warploom
