// Masks transposed: one bitmap per mask bit, with one bit per entry that says whether the entry's mask sets it. The
// distances of all entries to a query are then counted 64 entries a machine word at a time, in vertical binary counters
// (word k of a counter holds bit k of the counts of 64 entries).
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace warploom {

// Lists of entries by mask bit: bit b is set in the entries list[begin[b]], ..., list[begin[b + 1] - 1], ascending.
struct inverted_lists {
  std::vector<std::int64_t> begin;
  std::vector<std::int32_t> list;

  std::int64_t size(std::int32_t bit) const { return begin[bit + 1] - begin[bit]; }
  std::span<const std::int32_t> operator[](std::int32_t bit) const {
    return {list.data() + begin[bit], list.data() + begin[bit + 1]};
  }
};

class mask_bitmaps {
 public:
  // Bytes that build() would hold.
  static std::int64_t bytes(std::int64_t num_bits, std::int64_t num_entries);

  // `sizes` are the numbers of bits set in the entries' masks.
  void build(const inverted_lists& lists, std::span<const std::int32_t> sizes);

  void remove(std::int32_t entry) { remaining_[entry / 64] &= ~(std::uint64_t{1} << entry % 64); }

  // Marks the remaining entries at the minimum distance from `query` (a mask, as a list of bits).
  void find_nearest(std::span<const std::int32_t> query);

  // Keeps only the marked entries at the minimum distance from `query`.
  void narrow(std::span<const std::int32_t> query);

  bool has_several_marked() const {
    int marked = 0;
    for_each_marked([&](std::int32_t) { return ++marked < 2; });
    return marked > 1;
  }

  // Calls visit(entry) for every marked entry in ascending order until it returns false.
  template <class Visit>
  void for_each_marked(Visit&& visit) const {
    for (std::int64_t word = first_marked_word_; word < num_words_; ++word) {
      for (std::uint64_t left = marked_[word]; left != 0; left &= left - 1) {
        if (!visit(static_cast<std::int32_t>(word * 64 + std::countr_zero(left)))) return;
      }
    }
  }

 private:
  void mark_nearest(std::span<const std::int32_t> query, const std::uint64_t* candidates);

  std::int64_t num_words_ = 0;     // of a bitmap
  std::int32_t largest_size_ = 0;  // of a mask
  int deficit_planes_ = 0;
  std::vector<std::uint64_t> bitmaps_;    // [num_bits + 1][num_words]; the last one is empty
  std::vector<std::uint64_t> deficits_;   // [deficit_planes][num_words]: largest_size - size, in vertical form
  std::vector<std::uint64_t> remaining_;  // [num_words]
  std::vector<std::uint64_t> marked_;     // [num_words], meaningless before first_marked_word_
  std::int64_t first_marked_word_ = 0;
  std::vector<const std::uint64_t*> addends_;  // bitmaps of the query's bits
};

}  // namespace warploom
