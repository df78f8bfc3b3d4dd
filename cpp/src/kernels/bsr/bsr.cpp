#include "warploom/formats/bsr.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <numeric>
#include <string>

#include "device/cuda_function.hpp"
#include "kernels/bsr/reason.hpp"
#include "warploom/error.hpp"
#include "warploom/formats/format.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

convert_on_gpu_function bsr_on_gpu;

namespace {

constexpr std::int64_t block_rows_per_task = 1024;

// The block columns of a block row, ascending.
void find_block_columns(const csr_pattern& matrix, std::int64_t block_row, block_shape shape,
                        std::vector<std::int32_t>& columns) {
  columns.clear();
  const std::int64_t first = block_row * shape.rows;
  const std::int64_t last = std::min(first + shape.rows, matrix.num_rows);
  for (std::int64_t j = matrix.indptr[first]; j < matrix.indptr[last]; ++j) {
    const std::int32_t column = matrix.indices[j] / shape.cols;
    if (columns.empty() || columns.back() != column) columns.push_back(column);
  }
  std::sort(columns.begin(), columns.end());
  columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
}

std::vector<std::int64_t> block_offsets(const csr_pattern& matrix, block_shape shape) {
  const std::int64_t block_rows = (matrix.num_rows + shape.rows - 1) / shape.rows;
  std::vector<std::int64_t> offsets(block_rows + 1, 0);
  parallel_for(0, block_rows, block_rows_per_task, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int32_t> columns;
    for (std::int64_t b = begin; b < end; ++b) {
      find_block_columns(matrix, b, shape, columns);
      offsets[b + 1] = static_cast<std::int64_t>(columns.size());
    }
  });
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  return offsets;
}

template <class Value>
void fill_block_row(bsr_matrix& result, const csr_view& matrix, std::int64_t block_row) {
  const auto [height, width] = result.block;
  auto* values = reinterpret_cast<Value*>(result.data.data());
  const auto first = result.indices.begin() + result.indptr[block_row];
  const auto last = result.indices.begin() + result.indptr[block_row + 1];
  for (std::int64_t row = block_row * height; row < std::min((block_row + 1) * height, matrix.num_rows); ++row) {
    for (std::int64_t j = matrix.indptr[row]; j < matrix.indptr[row + 1]; ++j) {
      const std::int32_t column = matrix.indices[j];
      const std::int64_t block = std::lower_bound(first, last, column / width) - result.indices.begin();
      const std::int64_t place = (row % height) * width + column % width;
      Value& value = values[block * height * width + place];
      const std::uint64_t bit = std::uint64_t{1} << place;
      using sum_type = accumulator_t<Value>;
      value = (result.occupied[block] & bit) ? Value(sum_type(value) + sum_type(matrix.values<Value>()[j]))
                                             : matrix.values<Value>()[j];
      result.occupied[block] |= bit;
    }
  }
}

template <class Value>
void fill(bsr_matrix& result, const csr_view& matrix) {
  parallel_for(0, result.num_block_rows(), block_rows_per_task, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int32_t> columns;
    for (std::int64_t b = begin; b < end; ++b) {
      find_block_columns(matrix, b, result.block, columns);
      std::copy(columns.begin(), columns.end(), result.indices.begin() + result.indptr[b]);
      fill_block_row<Value>(result, matrix, b);
    }
  });
}

// The occupied places of row `i` of a block, as the lowest bits.
std::uint64_t occupied_of_row(const bsr_matrix& matrix, std::int64_t block, std::int64_t i) {
  const std::uint64_t row_bits = (std::uint64_t{1} << matrix.block.cols) - 1;
  return matrix.occupied[block] >> (i * matrix.block.cols) & row_bits;
}

template <class Value>
void gather_row(csr_matrix& result, const bsr_matrix& matrix, std::int64_t row) {
  const auto [height, width] = matrix.block;
  const auto* values = reinterpret_cast<const Value*>(matrix.data.data());
  auto* to_values = reinterpret_cast<Value*>(result.data.data());
  std::int64_t to = result.indptr[row];
  for (std::int64_t block = matrix.indptr[row / height]; block < matrix.indptr[row / height + 1]; ++block) {
    for (std::uint64_t bits = occupied_of_row(matrix, block, row % height); bits != 0; bits &= bits - 1) {
      const int j = std::countr_zero(bits);
      result.indices[to] = matrix.indices[block] * width + j;
      to_values[to] = values[(block * height + row % height) * width + j];
      ++to;
    }
  }
}

}  // namespace

void check_block_size(int size) {
  if (size == 2 || size == 4 || size == 8) return;
  throw error(error_kind::parameter, "block_size", -1, "block_size must be 2, 4 or 8, got " + std::to_string(size));
}

std::size_t bsr_matrix::bytes() const {
  return indptr.size() * sizeof(indptr[0]) + indices.size() * sizeof(indices[0]) + data.size() +
         occupied.size() * sizeof(occupied[0]);
}

std::int64_t bsr_places(const csr_pattern& matrix, block_shape block) {
  return block_offsets(matrix, block).back() * block.places();
}

std::int64_t bsr_places(const csr_pattern& matrix, int block_size) {
  check_block_size(block_size);
  return bsr_places(matrix, block_shape{block_size, block_size});
}

bool has_repeated_entries(const csr_pattern& matrix) {
  std::atomic<bool> found = false;
  parallel_for(0, matrix.num_rows, block_rows_per_task, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int32_t> columns;
    for (std::int64_t row = begin; row < end && !found; ++row) {
      const std::int32_t* first = matrix.indices + matrix.indptr[row];
      const std::int32_t* last = matrix.indices + matrix.indptr[row + 1];
      columns.assign(first, last);
      if (!std::is_sorted(columns.begin(), columns.end())) std::sort(columns.begin(), columns.end());
      if (std::adjacent_find(columns.begin(), columns.end()) != columns.end()) found = true;
    }
  });
  return found;
}

bsr_matrix to_bsr(const csr_view& matrix, int block_size) {
  check_block_size(block_size);
  return to_bsr(matrix, block_shape{block_size, block_size});
}

bsr_matrix to_bsr(const csr_view& matrix, block_shape block) {
  bsr_matrix result;
  result.num_rows = matrix.num_rows;
  result.num_cols = matrix.num_cols;
  result.dtype = matrix.dtype;
  result.block = block;
  result.indptr = block_offsets(matrix, block);
  result.indices.resize(result.num_blocks());
  result.data.resize(result.places() * size_of(matrix.dtype));
  result.occupied.resize(result.num_blocks());
  dispatch_value_type(matrix.dtype, [&]<class Value>(Value) { fill<Value>(result, matrix); });
  for (const std::uint64_t bits : result.occupied) result.num_entries += std::popcount(bits);
  return result;
}

csr_matrix to_csr(const bsr_matrix& matrix) {
  const int height = matrix.block.rows;
  csr_matrix result = empty_csr(matrix.num_rows, matrix.num_cols, matrix.dtype);
  parallel_for(0, matrix.num_rows, block_rows_per_task, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t block = matrix.indptr[row / height]; block < matrix.indptr[row / height + 1]; ++block) {
        result.indptr[row + 1] += std::popcount(occupied_of_row(matrix, block, row % height));
      }
    }
  });
  std::partial_sum(result.indptr.begin(), result.indptr.end(), result.indptr.begin());
  result.indices.resize(matrix.nnz());
  result.data.resize(matrix.nnz() * size_of(matrix.dtype));
  dispatch_value_type(matrix.dtype, [&]<class Value>(Value) {
    parallel_for(0, matrix.num_rows, block_rows_per_task, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) gather_row<Value>(result, matrix, row);
    });
  });
  return result;
}

std::vector<format_field> bsr_matrix::fields() const {
  return {
      {"block_size", std::int64_t{block.rows}}, {"indptr", array_of(indptr)},     {"indices", array_of(indices)},
      {"data", array_of(data, dtype)},          {"occupied", array_of(occupied)},
  };
}

format_description bsr_format() {
  return {
      .name = "bsr",
      .options = {{"block_size", 4, {2, 4, 8}}},
      .adds_repeated = true,
      .from_csr = [](const csr_view& matrix,
                     const option_values& options) { return stored(to_bsr(matrix, options.integer("block_size"))); },
      .from_csr_on_gpu = WARPLOOM_CUDA(bsr_on_gpu),
  };
}

}  // namespace warploom
