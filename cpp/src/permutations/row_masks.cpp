#include "permutations/row_masks.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

namespace warploom {
namespace {

// Numbers of the column blocks. Blocks keep their own numbers unless the matrix is so wide that most are empty; then
// the occupied ones are numbered in order, so that tables over all blocks do not outgrow the matrix.
class block_numbers {
 public:
  block_numbers(const csr_pattern& matrix, const geometry& shape) : line_(shape.elements_per_cache_line) {
    const std::int64_t blocks = (matrix.num_cols + line_ - 1) / line_;
    count_ = static_cast<std::int32_t>(blocks);
    if (blocks <= 2 * matrix.nnz() + 1024) return;
    occupied_.resize(matrix.nnz());
    std::transform(matrix.indices, matrix.indices + matrix.nnz(), occupied_.begin(), [&](auto c) { return c / line_; });
    std::sort(occupied_.begin(), occupied_.end());
    occupied_.erase(std::unique(occupied_.begin(), occupied_.end()), occupied_.end());
    count_ = static_cast<std::int32_t>(occupied_.size());
    renumbered_ = true;
  }

  std::int32_t count() const { return count_; }

  std::int32_t of_column(std::int32_t column) const {
    const std::int32_t block = column / line_;
    if (!renumbered_) return block;
    return static_cast<std::int32_t>(std::lower_bound(occupied_.begin(), occupied_.end(), block) - occupied_.begin());
  }

 private:
  std::int32_t line_;
  std::int32_t count_;
  bool renumbered_ = false;
  std::vector<std::int32_t> occupied_;
};

// Finds equal masks: a hash table with open addressing over the masks stored so far.
class mask_set {
 public:
  explicit mask_set(std::int64_t num_rows) : slots_(std::bit_ceil<std::size_t>(2 * num_rows + 1), -1) {}

  // The number of the mask; stored as a new one if it was not there.
  std::int32_t insert(row_masks& masks, const std::vector<std::int32_t>& mask) {
    std::size_t at = hash(mask) & (slots_.size() - 1);
    for (; slots_[at] >= 0; at = (at + 1) & (slots_.size() - 1)) {
      const auto known = masks[slots_[at]];
      if (std::equal(known.begin(), known.end(), mask.begin(), mask.end())) return slots_[at];
    }
    slots_[at] = masks.num_masks();
    masks.bits.insert(masks.bits.end(), mask.begin(), mask.end());
    masks.begin.push_back(static_cast<std::int64_t>(masks.bits.size()));
    return slots_[at];
  }

 private:
  static std::size_t hash(const std::vector<std::int32_t>& mask) {
    std::uint64_t state = mask.size();
    for (const std::int32_t bit : mask) {
      state = (state ^ static_cast<std::uint64_t>(bit)) * 0x9e3779b97f4a7c15u;
      state ^= state >> 29;
    }
    return state;
  }

  std::vector<std::int32_t> slots_;
};

// Inverts in all masks the bits that more than half of them set.
void invert_majority_bits(row_masks& masks) {
  std::vector<std::int32_t> times_set(masks.num_bits, 0);
  for (const std::int32_t bit : masks.bits) ++times_set[bit];
  std::vector<std::int32_t> majority;
  for (std::int32_t bit = 0; bit < masks.num_bits; ++bit) {
    if (times_set[bit] > masks.num_masks() / 2) majority.push_back(bit);
  }
  if (majority.empty()) return;

  row_masks inverted;
  inverted.begin.reserve(masks.begin.size());
  inverted.bits.reserve(masks.bits.size());
  for (std::int32_t m = 0; m < masks.num_masks(); ++m) {
    const auto mask = masks[m];
    std::set_symmetric_difference(mask.begin(), mask.end(), majority.begin(), majority.end(),
                                  std::back_inserter(inverted.bits));
    inverted.begin.push_back(static_cast<std::int64_t>(inverted.bits.size()));
  }
  masks.begin = std::move(inverted.begin);
  masks.bits = std::move(inverted.bits);
}

}  // namespace

// Sorts a list of bits and removes duplicates. Long lists go through a bitmap, which is faster than sorting.
class bit_sorter {
 public:
  explicit bit_sorter(std::int32_t num_bits) : bitmap_((num_bits + std::int64_t{63}) / 64, 0) {}

  void sort(std::vector<std::int32_t>& bits) {
    if (std::is_sorted(bits.begin(), bits.end())) {
      bits.erase(std::unique(bits.begin(), bits.end()), bits.end());
    } else if (bits.size() * 4 < bitmap_.size()) {
      std::sort(bits.begin(), bits.end());
      bits.erase(std::unique(bits.begin(), bits.end()), bits.end());
    } else {
      sort_by_bitmap(bits);
    }
  }

 private:
  void sort_by_bitmap(std::vector<std::int32_t>& bits) {
    for (const std::int32_t bit : bits) bitmap_[bit / 64] |= std::uint64_t{1} << bit % 64;
    bits.clear();
    for (std::size_t word = 0; word < bitmap_.size(); ++word) {
      for (std::uint64_t left = std::exchange(bitmap_[word], 0); left != 0; left &= left - 1) {
        bits.push_back(static_cast<std::int32_t>(word * 64) + std::countr_zero(left));
      }
    }
  }

  std::vector<std::uint64_t> bitmap_;  // all 0 between calls
};

row_masks make_row_masks(const csr_pattern& matrix, const geometry& shape) {
  const block_numbers blocks(matrix, shape);
  row_masks masks;
  masks.num_bits = blocks.count();
  masks.mask_of_row.resize(matrix.num_rows);
  mask_set known(matrix.num_rows);
  bit_sorter sorter(masks.num_bits);
  std::vector<std::int32_t> mask;
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) {
    mask.clear();
    for (std::int64_t j = matrix.indptr[row]; j < matrix.indptr[row + 1]; ++j) {
      const std::int32_t block = blocks.of_column(matrix.indices[j]);
      if (mask.empty() || mask.back() != block) mask.push_back(block);
    }
    sorter.sort(mask);
    masks.mask_of_row[row] = known.insert(masks, mask);
  }
  invert_majority_bits(masks);
  return masks;
}

}  // namespace warploom
