#include "warploom/formats/coo.hpp"

#include <algorithm>

#include "device/cuda_function.hpp"
#include "warploom/formats/format.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

convert_on_gpu_function coo_on_gpu;

namespace {

constexpr std::int64_t rows_per_task = 4096;
constexpr std::int64_t entries_per_task = 1 << 16;

}  // namespace

std::size_t coo_matrix::bytes() const {
  return row_indices.size() * sizeof(row_indices[0]) + indices.size() * sizeof(indices[0]) + data.size();
}

coo_matrix to_coo(const csr_view& matrix) {
  coo_matrix result;
  result.num_rows = matrix.num_rows;
  result.num_cols = matrix.num_cols;
  result.dtype = matrix.dtype;
  const auto* values = static_cast<const std::byte*>(matrix.data);
  result.indices.assign(matrix.indices, matrix.indices + matrix.nnz());
  result.data.assign(values, values + matrix.nnz() * size_of(matrix.dtype));
  result.row_indices.resize(matrix.nnz());
  parallel_for(0, matrix.num_rows, rows_per_task, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::fill(result.row_indices.begin() + matrix.indptr[row], result.row_indices.begin() + matrix.indptr[row + 1],
                static_cast<std::int32_t>(row));
    }
  });
  return result;
}

std::vector<std::int64_t> row_offsets(const coo_matrix& matrix) {
  std::vector<std::int64_t> offsets(matrix.num_rows + 1, matrix.nnz());
  parallel_for(0, matrix.nnz(), entries_per_task, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; ++j) {
      // Rows up to that of entry j which do not start before it start here.
      const std::int64_t before = j == 0 ? -1 : matrix.row_indices[j - 1];
      for (std::int64_t row = before + 1; row <= matrix.row_indices[j]; ++row) offsets[row] = j;
    }
  });
  return offsets;
}

csr_matrix to_csr(const coo_matrix& matrix) {
  csr_matrix result;
  result.num_rows = matrix.num_rows;
  result.num_cols = matrix.num_cols;
  result.dtype = matrix.dtype;
  result.indptr = row_offsets(matrix);
  result.indices = matrix.indices;
  result.data = matrix.data;
  return result;
}

std::vector<format_field> coo_matrix::fields() const {
  return {
      {"row_indices", array_of(row_indices)},
      {"indices", array_of(indices)},
      {"data", array_of(data, dtype)},
  };
}

format_description coo_format() {
  return {
      .name = "coo",
      .from_csr = [](const csr_view& matrix, const option_values&) { return stored(to_coo(matrix)); },
      .from_csr_on_gpu = WARPLOOM_CUDA(coo_on_gpu),
  };
}

}  // namespace warploom
