#include "warploom/formats/ell.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "device/cuda_function.hpp"
#include "kernels/row_places.hpp"
#include "warploom/error.hpp"
#include "warploom/formats/format.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

convert_on_gpu_function ell_from_csr_on_gpu;

namespace {

constexpr std::int64_t rows_per_task = 4096;

[[noreturn]] void refuse_width(const std::string& message) {
  throw error(error_kind::parameter, "max_width", -1, message);
}

template <class Value>
void fill(ell_matrix& result, const csr_view& matrix) {
  if (result.width == 0) return;  // nor are there arrays to point into
  auto* values = reinterpret_cast<Value*>(result.data.data());
  parallel_for(0, matrix.num_rows, rows_per_task, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t from = matrix.indptr[row];
      copy_entries<Value>(std::min(matrix.row_length(row), result.width),
                          {matrix.indices + from, matrix.values<Value>() + from}, 1,
                          {result.indices.data() + row, values + row}, matrix.num_rows);
    }
  });
}

template <class Value>
void gather(csr_matrix& result, const ell_matrix& matrix) {
  const auto* values = reinterpret_cast<const Value*>(matrix.data.data());
  auto* to_values = reinterpret_cast<Value*>(result.data.data());
  parallel_for(0, matrix.num_rows, rows_per_task, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t to = result.indptr[row];
      copy_entries<Value>(result.indptr[row + 1] - to, {matrix.indices.data() + row, values + row}, matrix.num_rows,
                          {result.indices.data() + to, to_values + to}, 1);
    }
  });
}

}  // namespace

std::size_t ell_matrix::bytes() const { return indices.size() * sizeof(indices[0]) + data.size(); }

std::int64_t longest_row(const csr_pattern& matrix) {
  std::int64_t longest = 0;
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) longest = std::max(longest, matrix.row_length(row));
  return longest;
}

ell_matrix to_ell_of_width(const csr_view& matrix, std::int64_t width) {
  ell_matrix result;
  result.num_rows = matrix.num_rows;
  result.num_cols = matrix.num_cols;
  result.dtype = matrix.dtype;
  result.width = width;
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) {
    result.num_entries += std::min(matrix.row_length(row), width);
  }
  result.indices.assign(result.places(), -1);
  result.data.resize(result.places() * size_of(matrix.dtype));
  dispatch_value_type(matrix.dtype, [&]<class Value>(Value) { fill<Value>(result, matrix); });
  return result;
}

void check_width(const csr_pattern& matrix, std::int64_t width, std::optional<std::int64_t> max_width,
                 const std::string& format) {
  check_width(matrix.num_rows, matrix.nnz(), longest_row(matrix), width, max_width, format);
}

void check_width(std::int64_t num_rows, std::int64_t nnz, std::int64_t longest, std::int64_t width,
                 std::optional<std::int64_t> max_width, const std::string& format) {
  if (max_width && *max_width < 0) refuse_width("max_width must not be negative, got " + std::to_string(*max_width));
  if (max_width && longest > *max_width) {
    refuse_width("a row has " + std::to_string(longest) +
                 " entries, more than max_width = " + std::to_string(*max_width));
  }
  if (!max_width && !padding_is_acceptable(width * num_rows, nnz)) {
    refuse_width(format + " would store " + std::to_string(width * num_rows) + " places for " + std::to_string(nnz) +
                 " nonzeros; max_width = " + std::to_string(longest) + " allows it");
  }
}

ell_matrix to_ell(const csr_view& matrix, std::optional<std::int64_t> max_width) {
  const std::int64_t width = longest_row(matrix);
  check_width(matrix, width, max_width, "ELL");
  return to_ell_of_width(matrix, width);
}

csr_matrix to_csr(const ell_matrix& matrix) {
  csr_matrix result = empty_csr(matrix.num_rows, matrix.num_cols, matrix.dtype);
  if (matrix.width == 0) return result;
  parallel_for(0, matrix.num_rows, rows_per_task, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      result.indptr[row + 1] = entries_before_padding(matrix.indices.data() + row, matrix.width, matrix.num_rows);
    }
  });
  std::partial_sum(result.indptr.begin(), result.indptr.end(), result.indptr.begin());
  result.indices.resize(matrix.nnz());
  result.data.resize(matrix.nnz() * size_of(matrix.dtype));
  dispatch_value_type(matrix.dtype, [&]<class Value>(Value) { gather<Value>(result, matrix); });
  return result;
}

std::vector<format_field> ell_matrix::fields() const {
  return {
      {"width", width},
      {"indices", array_of(indices)},
      {"data", array_of(data, dtype)},
  };
}

format_description ell_format() {
  return {
      .name = "ell",
      .options = {{"max_width", {}, {2000}}},
      .from_csr =
          [](const csr_view& matrix, const option_values& options) {
            return stored(to_ell(matrix, options.optional_integer("max_width")));
          },
      .from_csr_on_gpu = WARPLOOM_CUDA(ell_from_csr_on_gpu),
  };
}

}  // namespace warploom
