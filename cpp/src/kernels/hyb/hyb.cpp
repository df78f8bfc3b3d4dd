#include "warploom/formats/hyb.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "device/cuda_function.hpp"
#include "kernels/hyb/width.hpp"
#include "kernels/row_places.hpp"
#include "warploom/error.hpp"
#include "warploom/formats/format.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

convert_on_gpu_function hyb_from_csr_on_gpu;

namespace {

constexpr std::int64_t rows_per_task = 4096;

// The entries of every row beyond the first `width`, as a CSR matrix.
template <class Value>
csr_matrix overflow_of(const csr_view& matrix, std::int64_t width) {
  csr_matrix result = empty_csr(matrix.num_rows, matrix.num_cols, matrix.dtype);
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) {
    result.indptr[row + 1] = result.indptr[row] + std::max<std::int64_t>(matrix.row_length(row) - width, 0);
  }
  result.indices.resize(result.indptr.back());
  result.data.resize(result.indptr.back() * sizeof(Value));
  auto* values = reinterpret_cast<Value*>(result.data.data());
  parallel_for(0, matrix.num_rows, rows_per_task, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t to = result.indptr[row];
      const std::int64_t count = result.indptr[row + 1] - to;
      const std::int64_t from = matrix.indptr[row + 1] - count;
      copy_entries<Value>(count, {matrix.indices + from, matrix.values<Value>() + from}, 1,
                          {result.indices.data() + to, values + to}, 1);
    }
  });
  return result;
}

template <class Value>
void join(csr_matrix& result, const csr_matrix& first, const csr_matrix& rest) {
  auto* values = reinterpret_cast<Value*>(result.data.data());
  parallel_for(0, result.num_rows, rows_per_task, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t to = result.indptr[row];
      for (const csr_matrix* part : {&first, &rest}) {
        const std::int64_t from = part->indptr[row];
        const std::int64_t count = part->indptr[row + 1] - from;
        const auto* part_values = reinterpret_cast<const Value*>(part->data.data());
        copy_entries<Value>(count, {part->indices.data() + from, part_values + from}, 1,
                            {result.indices.data() + to, values + to}, 1);
        to += count;
      }
    }
  });
}

}  // namespace

std::int64_t rows_that_fill_ell(std::int64_t num_rows) {
  constexpr std::int64_t fewest_rows = 4096;
  const std::int64_t third = num_rows / 3;
  return std::max<std::int64_t>(num_rows < fewest_rows ? third : fewest_rows, std::max<std::int64_t>(third, 1));
}

std::int64_t hyb_width(const csr_pattern& matrix) {
  std::vector<std::int64_t> rows_of_length(longest_row(matrix) + 1, 0);
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) ++rows_of_length[matrix.row_length(row)];
  const std::int64_t enough = rows_that_fill_ell(matrix.num_rows);
  std::int64_t width = static_cast<std::int64_t>(rows_of_length.size()) - 1;
  std::int64_t filled = rows_of_length[width];  // rows of at least `width` entries
  while (width > 0 && filled < enough) filled += rows_of_length[--width];
  return width;
}

void check_hyb_width(std::int64_t width) {
  if (width >= 0) return;
  throw error(error_kind::parameter, "width", -1, "width must not be negative, got " + std::to_string(width));
}

hyb_matrix to_hyb(const csr_view& matrix, std::int64_t width) {
  check_hyb_width(width);
  if (width == 0) width = hyb_width(matrix);
  hyb_matrix result;
  result.num_rows = matrix.num_rows;
  result.num_cols = matrix.num_cols;
  result.dtype = matrix.dtype;
  result.ell = to_ell_of_width(matrix, std::min(width, longest_row(matrix)));
  const csr_matrix overflow = dispatch_value_type(
      matrix.dtype, [&]<class Value>(Value) { return overflow_of<Value>(matrix, result.ell.width); });
  result.coo = to_coo(overflow.view());
  return result;
}

csr_matrix to_csr(const hyb_matrix& matrix) {
  const csr_matrix first = to_csr(matrix.ell);
  const csr_matrix rest = to_csr(matrix.coo);
  csr_matrix result = empty_csr(matrix.num_rows, matrix.num_cols, matrix.dtype);
  for (std::int64_t row = 0; row <= matrix.num_rows; ++row) result.indptr[row] = first.indptr[row] + rest.indptr[row];
  result.indices.resize(matrix.nnz());
  result.data.resize(matrix.nnz() * size_of(matrix.dtype));
  dispatch_value_type(matrix.dtype, [&]<class Value>(Value) { join<Value>(result, first, rest); });
  return result;
}

std::vector<format_field> hyb_matrix::fields() const {
  return {
      {"ell", part_of(ell)},
      {"coo", part_of(coo)},
  };
}

format_description hyb_format() {
  return {
      .name = "hyb",
      .options = {{"width", 0, {0, 1, 3}}},
      .from_csr =
          [](const csr_view& matrix, const option_values& options) {
            return stored(to_hyb(matrix, options.integer<std::int64_t>("width")));
          },
      .from_csr_on_gpu = WARPLOOM_CUDA(hyb_from_csr_on_gpu),
  };
}

}  // namespace warploom
