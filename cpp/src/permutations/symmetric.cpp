#include <algorithm>
#include <utility>

#include "permutations/chunks.hpp"
#include "warploom/error.hpp"
#include "warploom/permutation.hpp"

namespace warploom {

symmetric_permutation permute_symmetrically(const csr_pattern& matrix, std::span<const std::int32_t> perm) {
  if (matrix.num_rows != matrix.num_cols) {
    throw error(error_kind::shape, "A", -1,
                "a symmetric order needs a square matrix, got " + std::to_string(matrix.num_rows) + " x " +
                    std::to_string(matrix.num_cols));
  }
  validate_permutation(perm, matrix.num_rows);
  constexpr std::int64_t grain = 1 << 10;
  const row_permutation new_number = invert(perm);
  symmetric_permutation result;
  result.indptr.resize(matrix.num_rows + 1);
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) {
    result.indptr[row + 1] = result.indptr[row] + matrix.row_length(perm[row]);
  }
  result.indices.resize(matrix.nnz());
  result.source.resize(matrix.nnz());
  for_chunks(matrix.num_rows, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::pair<std::int32_t, std::int64_t>> entries;  // new column, place in A
    for (std::int64_t row = begin; row < end; ++row) {
      entries.clear();
      for (std::int64_t j = matrix.indptr[perm[row]]; j < matrix.indptr[perm[row] + 1]; ++j) {
        entries.emplace_back(new_number[matrix.indices[j]], j);
      }
      std::sort(entries.begin(), entries.end());
      std::int64_t at = result.indptr[row];
      for (const auto& [column, place] : entries) {
        result.indices[at] = column;
        result.source[at++] = place;
      }
    }
  });
  return result;
}

}  // namespace warploom
