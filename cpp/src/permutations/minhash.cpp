// Rows by their MinHash signatures: Broder, "On the resemblance and containment of documents" (1997). A signature is
// the least hash of the row's columns under each of several functions; two rows have the same least hash with a
// probability equal to the share of their columns that they have in common (the Jaccard index). Sorted by signatures,
// equal and similar rows are side by side, as in the reordering for SpMM of Jiang et al. (2020). Rows without entries
// come last, and rows of equal signature are in the caller's order.
#include <array>
#include <cstdint>
#include <limits>

#include "permutations/algorithms.hpp"
#include "permutations/chunks.hpp"
#include "permutations/locality_keys.hpp"

namespace warploom {
namespace {

using signature = std::array<std::uint32_t, num_minhashes>;

struct hashed_row {
  signature least;
  std::int32_t row;

  friend auto operator<=>(const hashed_row&, const hashed_row&) = default;
};

}  // namespace

row_permutation minhash_permutation(const csr_pattern& matrix, const geometry&) {
  std::array<std::uint32_t, num_minhashes> salts;
  for (int h = 0; h < num_minhashes; ++h) salts[h] = minhash_salt(h);
  std::vector<hashed_row> rows(matrix.num_rows);
  for_chunks(matrix.num_rows, 1 << 10, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      signature least;
      least.fill(std::numeric_limits<std::uint32_t>::max());
      for (std::int64_t j = matrix.indptr[row]; j < matrix.indptr[row + 1]; ++j) {
        const auto column = static_cast<std::uint32_t>(matrix.indices[j]);
        for (int h = 0; h < num_minhashes; ++h) least[h] = std::min(least[h], mixed(column ^ salts[h]));
      }
      rows[row] = {least, static_cast<std::int32_t>(row)};
    }
  });
  sort_in_parallel(rows, std::less<>());
  row_permutation perm(matrix.num_rows);
  for (std::size_t i = 0; i < perm.size(); ++i) perm[i] = rows[i].row;
  return perm;
}

}  // namespace warploom
