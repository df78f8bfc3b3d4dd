#include "warploom/formats/sell.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "device/cuda_function.hpp"
#include "kernels/row_places.hpp"
#include "kernels/sell/slice_height.hpp"
#include "warploom/error.hpp"
#include "warploom/formats/format.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

convert_on_gpu_function sell_from_csr_on_gpu;

namespace {

constexpr std::int64_t rows_per_task = 4096;

void check_at_least_one(const char* name, std::int64_t value) {
  if (value >= 1) return;
  throw error(error_kind::parameter, name, -1, std::string(name) + " must be at least 1, got " + std::to_string(value));
}

// The rows in their stored order: sorted by decreasing length within each window.
std::vector<std::int32_t> sort_rows(const csr_pattern& matrix, std::int64_t window) {
  std::vector<std::int32_t> order(matrix.num_rows);
  std::iota(order.begin(), order.end(), 0);
  const std::int64_t size = std::min(window, std::max<std::int64_t>(matrix.num_rows, 1));
  const std::int64_t windows = (matrix.num_rows + size - 1) / size;
  parallel_for(0, windows, rows_per_task / size + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t w = begin; w < end; ++w) {
      const auto first = order.begin() + w * size;
      const auto last = order.begin() + std::min((w + 1) * size, matrix.num_rows);
      std::stable_sort(first, last, [&](std::int32_t left, std::int32_t right) {
        return matrix.row_length(left) > matrix.row_length(right);
      });
    }
  });
  return order;
}

struct sell_shape {
  std::vector<std::int64_t> slice_ptr;
  std::vector<std::int32_t> row_ids;
};

sell_shape shape_of(const csr_pattern& matrix, std::int64_t height, std::int64_t window) {
  check_sell_options(height, window);
  sell_shape shape;
  if (window > 1) shape.row_ids = sort_rows(matrix, window);
  const std::int64_t slices = (matrix.num_rows + height - 1) / height;
  shape.slice_ptr.assign(slices + 1, 0);
  parallel_for(0, slices, rows_per_task / height + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      std::int64_t longest = 0;
      for (std::int64_t p = s * height; p < std::min((s + 1) * height, matrix.num_rows); ++p) {
        longest = std::max(longest, matrix.row_length(shape.row_ids.empty() ? p : shape.row_ids[p]));
      }
      shape.slice_ptr[s + 1] = longest * height;
    }
  });
  std::partial_sum(shape.slice_ptr.begin(), shape.slice_ptr.end(), shape.slice_ptr.begin());
  return shape;
}

// Calls body(first place, width, stored row) for every row of the slices begin .. end.
template <class Body>
void for_each_row(const sell_matrix& matrix, std::int64_t begin, std::int64_t end, Body body) {
  for (std::int64_t s = begin; s < end; ++s) {
    const std::int64_t first = s * matrix.slice_height;
    const std::int64_t count = std::min<std::int64_t>(matrix.slice_height, matrix.num_rows - first);
    for (std::int64_t r = 0; r < count; ++r) body(matrix.slice_ptr[s] + r, matrix.width(s), first + r);
  }
}

template <class Value>
void fill(sell_matrix& result, const csr_view& matrix) {
  if (result.places() == 0) return;  // nor are there arrays to point into
  auto* values = reinterpret_cast<Value*>(result.data.data());
  parallel_for(0, result.num_slices(), rows_per_task / result.slice_height + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 for_each_row(result, begin, end, [&](std::int64_t place, std::int64_t, std::int64_t stored_row) {
                   const std::int64_t row = result.row_of(stored_row);
                   const std::int64_t from = matrix.indptr[row];
                   copy_entries<Value>(matrix.row_length(row), {matrix.indices + from, matrix.values<Value>() + from},
                                       1, {result.indices.data() + place, values + place}, result.slice_height);
                 });
               });
}

template <class Value>
void gather(csr_matrix& result, const sell_matrix& matrix) {
  const auto* values = reinterpret_cast<const Value*>(matrix.data.data());
  auto* to_values = reinterpret_cast<Value*>(result.data.data());
  parallel_for(0, matrix.num_slices(), rows_per_task / matrix.slice_height + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 for_each_row(matrix, begin, end, [&](std::int64_t place, std::int64_t, std::int64_t stored_row) {
                   const std::int64_t row = matrix.row_of(stored_row);
                   const std::int64_t to = result.indptr[row];
                   copy_entries<Value>(result.indptr[row + 1] - to, {matrix.indices.data() + place, values + place},
                                       matrix.slice_height, {result.indices.data() + to, to_values + to}, 1);
                 });
               });
}

}  // namespace

void check_sell_options(std::int64_t slice_height, std::int64_t sort_window) {
  check_at_least_one("slice_height", slice_height);
  check_at_least_one("sort_window", sort_window);
}

std::size_t sell_matrix::bytes() const {
  return slice_ptr.size() * sizeof(slice_ptr[0]) + row_ids.size() * sizeof(row_ids[0]) +
         indices.size() * sizeof(indices[0]) + data.size();
}

std::int64_t sell_places(const csr_pattern& matrix, int slice_height, std::int64_t sort_window) {
  return shape_of(matrix, slice_height, sort_window).slice_ptr.back();
}

sell_matrix to_sell(const csr_view& matrix, int slice_height, std::int64_t sort_window) {
  sell_shape shape = shape_of(matrix, slice_height, sort_window);
  sell_matrix result;
  result.num_rows = matrix.num_rows;
  result.num_cols = matrix.num_cols;
  result.dtype = matrix.dtype;
  result.slice_height = slice_height;
  result.sort_window = sort_window;
  result.num_entries = matrix.nnz();
  result.slice_ptr = std::move(shape.slice_ptr);
  result.row_ids = std::move(shape.row_ids);
  result.indices.assign(result.places(), -1);
  result.data.resize(result.places() * size_of(matrix.dtype));
  dispatch_value_type(matrix.dtype, [&]<class Value>(Value) { fill<Value>(result, matrix); });
  return result;
}

csr_matrix to_csr(const sell_matrix& matrix) {
  csr_matrix result = empty_csr(matrix.num_rows, matrix.num_cols, matrix.dtype);
  if (matrix.places() == 0) return result;
  parallel_for(0, matrix.num_slices(), rows_per_task / matrix.slice_height + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 for_each_row(matrix, begin, end, [&](std::int64_t place, std::int64_t width, std::int64_t stored_row) {
                   result.indptr[matrix.row_of(stored_row) + 1] =
                       entries_before_padding(matrix.indices.data() + place, width, matrix.slice_height);
                 });
               });
  std::partial_sum(result.indptr.begin(), result.indptr.end(), result.indptr.begin());
  result.indices.resize(matrix.nnz());
  result.data.resize(matrix.nnz() * size_of(matrix.dtype));
  dispatch_value_type(matrix.dtype, [&]<class Value>(Value) { gather<Value>(result, matrix); });
  return result;
}

std::vector<format_field> sell_matrix::fields() const {
  return {
      {"slice_height", std::int64_t{slice_height}}, {"sort_window", sort_window},   {"row_ids", array_of(row_ids)},
      {"slice_ptr", array_of(slice_ptr)},           {"indices", array_of(indices)}, {"data", array_of(data, dtype)},
  };
}

format_description sell_format() {
  return {
      .name = "sell",
      .options = {{"slice_height", 32, {1, 3, 32}}, {"sort_window", 1, {1, 4, 64}}},
      .from_csr =
          [](const csr_view& matrix, const option_values& options) {
            return stored(
                to_sell(matrix, options.integer("slice_height"), options.integer<std::int64_t>("sort_window")));
          },
      .from_csr_on_gpu = WARPLOOM_CUDA(sell_from_csr_on_gpu),
  };
}

}  // namespace warploom
