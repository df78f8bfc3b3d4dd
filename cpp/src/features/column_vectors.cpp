// For windows of 8 and of 16 rows, whose nonzeros of one column are a column vector:
//
// vectors_per_nonzero  rows of B that SpMM on column vectors reads for each nonzero: 1 where rows have nothing in
//                      common, 1 / 8 or 1 / 16 where they are the same
// density              nonzeros per place of the vectors
// single_vectors       share of the vectors that have one nonzero
// dense_windows        share of the nonzeros in windows of at most one vector for every third nonzero
//
// All are 0 without nonzeros. Entries that repeat are counted each.
#include "features/column_vectors.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "warploom/parallel.hpp"
#include "warploom/vector_features.hpp"

namespace warploom {
namespace {

constexpr std::array names{
    "vectors_per_nonzero_8",  "density_8",  "single_vectors_8",  "dense_windows_8",
    "vectors_per_nonzero_16", "density_16", "single_vectors_16", "dense_windows_16",
};
constexpr std::int64_t windows_per_task = 512;

void add(vector_counts& total, const vector_counts& other) {
  total.vectors += other.vectors;
  total.single += other.single;
  total.nonzeros_of_dense += other.nonzeros_of_dense;
}

void count_window(const csr_pattern& matrix, std::int64_t first_row, int height, std::vector<std::int32_t>& columns,
                  vector_counts& found) {
  const std::int64_t last_row = std::min(first_row + height, matrix.num_rows);
  columns.assign(matrix.indices + matrix.indptr[first_row], matrix.indices + matrix.indptr[last_row]);
  std::sort(columns.begin(), columns.end());
  std::int64_t vectors = 0;
  for (std::size_t begin = 0, end = 0; begin < columns.size(); begin = end) {
    while (end < columns.size() && columns[end] == columns[begin]) ++end;
    ++vectors;
    found.single += end - begin == 1;
  }
  const auto nonzeros = static_cast<std::int64_t>(columns.size());
  found.vectors += vectors;
  if (is_dense_window(vectors, nonzeros)) found.nonzeros_of_dense += nonzeros;
}

vector_counts count(const csr_pattern& matrix, int height) {
  const std::int64_t windows = (matrix.num_rows + height - 1) / height;
  std::vector<vector_counts> of_task((windows + windows_per_task - 1) / windows_per_task);
  parallel_for(0, static_cast<std::int64_t>(of_task.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int32_t> columns;
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t last = std::min((task + 1) * windows_per_task, windows);
      for (std::int64_t window = task * windows_per_task; window < last; ++window) {
        count_window(matrix, window * height, height, columns, of_task[task]);
      }
    }
  });
  vector_counts total;
  for (const vector_counts& part : of_task) add(total, part);
  return total;
}

}  // namespace

std::span<const char* const> column_vector_feature_names() { return names; }

std::vector<double> column_vector_features(const vector_counts& of_8, const vector_counts& of_16, std::int64_t nnz) {
  std::vector<double> values;
  const auto nonzeros = static_cast<double>(nnz);
  for (const auto& [found, height] : {std::pair{of_8, 8}, std::pair{of_16, 16}}) {
    const auto vectors = static_cast<double>(found.vectors);
    const bool any = found.vectors > 0;
    values.insert(values.end(), {any ? vectors / nonzeros : 0, any ? nonzeros / (vectors * height) : 0,
                                 any ? static_cast<double>(found.single) / vectors : 0,
                                 any ? static_cast<double>(found.nonzeros_of_dense) / nonzeros : 0});
  }
  return values;
}

std::vector<double> column_vector_features(const csr_pattern& matrix) {
  return column_vector_features(count(matrix, 8), count(matrix, 16), matrix.nnz());
}

}  // namespace warploom
