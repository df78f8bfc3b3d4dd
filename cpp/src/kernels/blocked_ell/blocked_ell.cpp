#include "kernels/blocked_ell/blocked_ell.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "warploom/error.hpp"
#include "warploom/formats/format.hpp"
#include "warploom/parallel.hpp"

namespace warploom {
namespace {

constexpr std::int64_t block_rows_per_task = 256;

// The block columns of a row of blocks, ascending.
void find_block_columns(const csr_pattern& matrix, std::int64_t block_row, int size,
                        std::vector<std::int32_t>& columns) {
  columns.clear();
  const std::int64_t last = std::min((block_row + 1) * size, matrix.num_rows);
  for (std::int64_t j = matrix.indptr[block_row * size]; j < matrix.indptr[last]; ++j) {
    const std::int32_t column = matrix.indices[j] / size;
    if (columns.empty() || columns.back() != column) columns.push_back(column);
  }
  std::sort(columns.begin(), columns.end());
  columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
}

// Blocks of the longest row of blocks.
std::int64_t widest_block_row(const csr_pattern& matrix, int size) {
  const std::int64_t block_rows = (matrix.num_rows + size - 1) / size;
  std::vector<std::int64_t> counts(block_rows, 0);
  parallel_for(0, block_rows, block_rows_per_task, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int32_t> columns;
    for (std::int64_t b = begin; b < end; ++b) {
      find_block_columns(matrix, b, size, columns);
      counts[b] = static_cast<std::int64_t>(columns.size());
    }
  });
  return counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
}

template <class Value>
void fill_block_row(blocked_ell& result, const csr_view& matrix, std::int64_t block_row,
                    const std::vector<std::int32_t>& columns) {
  const int size = result.block_size;
  auto* values = reinterpret_cast<Value*>(result.data.data());
  std::copy(columns.begin(), columns.end(), result.indices.begin() + block_row * result.width);
  for (std::int64_t row = block_row * size; row < std::min((block_row + 1) * size, matrix.num_rows); ++row) {
    for (std::int64_t j = matrix.indptr[row]; j < matrix.indptr[row + 1]; ++j) {
      const std::int32_t column = matrix.indices[j];
      const std::int64_t block = std::lower_bound(columns.begin(), columns.end(), column / size) - columns.begin();
      Value& value = values[(row * result.width + block) * size + column % size];
      std::uint32_t& occupied = result.occupied[row * result.width + block];
      const std::uint32_t bit = std::uint32_t{1} << column % size;
      using sum_type = accumulator_t<Value>;
      value =
          (occupied & bit) ? Value(sum_type(value) + sum_type(matrix.values<Value>()[j])) : matrix.values<Value>()[j];
      occupied |= bit;
    }
  }
}

}  // namespace

std::size_t blocked_ell::bytes() const {
  return indices.size() * sizeof(indices[0]) + data.size() + occupied.size() * sizeof(occupied[0]);
}

std::int64_t blocked_ell_places(const csr_pattern& matrix, int block_size) {
  const std::int64_t block_rows = (matrix.num_rows + block_size - 1) / block_size;
  return block_rows * block_size * block_size * widest_block_row(matrix, block_size);
}

blocked_ell to_blocked_ell(const csr_view& matrix, int block_size) {
  if (block_size != 8 && block_size != 16 && block_size != 32) {
    throw error(error_kind::parameter, "block_size", -1,
                "block_size must be 8, 16 or 32, got " + std::to_string(block_size));
  }
  blocked_ell result;
  result.num_rows = matrix.num_rows;
  result.num_cols = matrix.num_cols;
  result.dtype = matrix.dtype;
  result.block_size = block_size;
  result.width = widest_block_row(matrix, block_size);
  result.indices.assign(result.num_block_rows() * result.width, -1);
  result.data.resize(result.places() * size_of(matrix.dtype));
  result.occupied.resize(result.num_block_rows() * block_size * result.width);
  dispatch_value_type(matrix.dtype, [&]<class Value>(Value) {
    parallel_for(0, result.num_block_rows(), block_rows_per_task, [&](std::int64_t begin, std::int64_t end) {
      std::vector<std::int32_t> columns;
      for (std::int64_t b = begin; b < end; ++b) {
        find_block_columns(matrix, b, block_size, columns);
        fill_block_row<Value>(result, matrix, b, columns);
      }
    });
  });
  for (const std::uint32_t bits : result.occupied) result.num_entries += std::popcount(bits);
  return result;
}

csr_matrix to_csr(const blocked_ell& matrix) {
  csr_matrix result = empty_csr(matrix.num_rows, matrix.num_cols, matrix.dtype);
  result.indices.reserve(matrix.nnz());
  result.data.reserve(matrix.nnz() * size_of(matrix.dtype));
  const std::size_t value_size = size_of(matrix.dtype);
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) {
    for (std::int64_t block = 0; block < matrix.width; ++block) {
      const std::int64_t place = row * matrix.width + block;
      const std::int32_t first = matrix.indices[row / matrix.block_size * matrix.width + block] * matrix.block_size;
      for (std::uint32_t bits = matrix.occupied[place]; bits != 0; bits &= bits - 1) {
        const int j = std::countr_zero(bits);
        const auto* const value = matrix.data.data() + (place * matrix.block_size + j) * value_size;
        result.indices.push_back(first + j);
        result.data.insert(result.data.end(), value, value + value_size);
      }
    }
    result.indptr[row + 1] = result.nnz();
  }
  return result;
}

std::vector<format_field> blocked_ell::fields() const {
  return {
      {"block_size", std::int64_t{block_size}}, {"width", width},
      {"indices", array_of(indices)},           {"data", array_of(data, dtype)},
      {"occupied", array_of(occupied)},
  };
}

format_description blocked_ell_format() {
  return {
      .name = "blocked-ell",
      .options = {{"block_size", 16, {8, 16, 32}}},
      .adds_repeated = true,
      .from_csr =
          [](const csr_view& matrix, const option_values& options) {
            return stored(to_blocked_ell(matrix, options.integer("block_size")));
          },
  };
}

}  // namespace warploom
