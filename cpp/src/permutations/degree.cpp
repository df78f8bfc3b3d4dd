// Degree-based grouping: Faldu, Diamond and Grot, "A closer look at lightweight graph reordering" (2019). Rows in
// classes of decreasing degree, so that the often used ones are next to each other; within a class the caller's order
// is kept, and with it what locality it has. The degree is the number of entries of row and column; of the row where A
// is not square. The bounds of the classes are multiples of the mean degree.
#include <algorithm>
#include <array>

#include "permutations/algorithms.hpp"
#include "permutations/chunks.hpp"
#include "permutations/locality_keys.hpp"

namespace warploom {
namespace {

std::vector<std::int64_t> degrees(const csr_pattern& matrix) {
  constexpr std::int64_t grain = 1 << 12;
  std::vector<std::int64_t> degree(matrix.num_rows);
  for_chunks(matrix.num_rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) degree[row] = matrix.row_length(row);
  });
  if (matrix.num_rows != matrix.num_cols) return degree;
  for_chunks(matrix.nnz(), 16 * grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; ++j) {
      add_shared(degree[matrix.indices[j]], std::int64_t{1});
    }
  });
  return degree;
}

}  // namespace

row_permutation degree_permutation(const csr_pattern& matrix, const geometry&) {
  const std::vector<std::int64_t> degree = degrees(matrix);
  const std::int64_t rows = matrix.num_rows;
  std::int64_t sum = 0;
  for (const std::int64_t d : degree) sum += d;
  const auto class_of = [&](std::int64_t row) { return degree_class(degree[row], rows, sum); };
  std::array<std::int64_t, num_degree_classes + 1> next{};
  for (std::int64_t row = 0; row < rows; ++row) ++next[class_of(row) + 1];
  for (int c = 0; c < num_degree_classes; ++c) next[c + 1] += next[c];
  row_permutation perm(rows);
  for (std::int64_t row = 0; row < rows; ++row) perm[next[class_of(row)]++] = static_cast<std::int32_t>(row);
  return perm;
}

}  // namespace warploom
