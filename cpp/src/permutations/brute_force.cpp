// CTA-Aware Sort by comparing masks bit by bit: benchmarks and tests compare the search of nearest_rows with it.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "cpu_clones.hpp"
#include "permutations/algorithms.hpp"
#include "permutations/warp_load.hpp"

namespace warploom {
namespace {

// Packed masks of the remaining rows, in any order.
struct packed_masks {
  std::int64_t words = 0;  // of a mask
  std::vector<std::int32_t> rows;
  std::vector<std::uint64_t> masks;
};

packed_masks pack(const csr_pattern& matrix, const geometry& shape) {
  const std::int64_t blocks = (matrix.num_cols + shape.elements_per_cache_line - 1) / shape.elements_per_cache_line;
  packed_masks packed{(blocks + 63) / 64, rows_by_index(matrix.num_rows), {}};
  packed.masks.assign(packed.words * matrix.num_rows, 0);
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) {
    for (std::int64_t j = matrix.indptr[row]; j < matrix.indptr[row + 1]; ++j) {
      const std::int64_t block = matrix.indices[j] / shape.elements_per_cache_line;
      packed.masks[row * packed.words + block / 64] |= std::uint64_t{1} << block % 64;
    }
  }
  return packed;
}

WARPLOOM_CPU_CLONES("popcnt") std::int64_t nearest(const packed_masks& packed, const std::uint64_t* query) {
  std::int64_t best = 0;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  const auto count = static_cast<std::int64_t>(packed.rows.size());
  const std::uint64_t* mask = packed.masks.data();
  for (std::int64_t i = 0; i < count; ++i, mask += packed.words) {
    std::int64_t distance = 0;
    for (std::int64_t w = 0; w < packed.words; ++w) distance += __builtin_popcountll(mask[w] ^ query[w]);
    if (distance < least || (distance == least && packed.rows[i] < packed.rows[best])) {
      least = distance;
      best = i;
    }
  }
  return best;
}

// Removes entry i, and leaves its mask in `mask`. The last entry takes its place.
std::int32_t take(packed_masks& packed, std::int64_t i, std::vector<std::uint64_t>& mask) {
  const auto at = packed.masks.begin() + i * packed.words;
  mask.assign(at, at + packed.words);
  std::copy(packed.masks.end() - packed.words, packed.masks.end(), at);
  packed.masks.resize(packed.masks.size() - packed.words);
  const std::int32_t row = std::exchange(packed.rows[i], packed.rows.back());
  packed.rows.pop_back();
  return row;
}

}  // namespace

row_permutation cta_aware_by_brute_force(const csr_pattern& matrix, const geometry& shape) {
  row_permutation perm;
  if (matrix.num_rows == 0) return perm;
  packed_masks packed = pack(matrix, shape);
  std::vector<std::uint64_t> mask;
  perm.push_back(take(packed, rows_by_increasing_load(warp_loads(matrix, shape)).front(), mask));
  while (!packed.rows.empty()) perm.push_back(take(packed, nearest(packed, mask.data()), mask));
  return perm;
}

}  // namespace warploom
