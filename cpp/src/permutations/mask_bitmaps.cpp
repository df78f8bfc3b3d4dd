#include "permutations/mask_bitmaps.hpp"

#include <algorithm>
#include <bit>

#include "cpu_clones.hpp"

namespace warploom {
namespace {

using word = std::uint64_t;

constexpr std::int64_t chunk_words = 64;   // counters of this many words stay in the first-level cache
constexpr std::int64_t word_multiple = 8;  // a cache line, and a vector register of any width
constexpr int max_planes = 34;

std::int64_t words_for(std::int64_t num_entries) {
  return (num_entries + 64 * word_multiple - 1) / (64 * word_multiple) * word_multiple;
}

// Full adder on 64 counters at once: sum := bit 0 of sum + a + b, returns bit 1.
WARPLOOM_INLINE word add(word& sum, word a, word b) {
  const word half = sum ^ a;
  const word carry = (sum & a) | (half & b);
  sum = half ^ b;
  return carry;
}

// Vertical counters of one chunk. Plane 0 holds the lowest bit.
struct counters {
  alignas(64) word plane[max_planes][chunk_words];
  alignas(64) word carry[chunk_words];
  int num_planes;
};

// Adds carry to the planes from `plane` on.
WARPLOOM_INLINE void ripple(counters& c, int plane, std::int64_t words) {
  for (; plane < c.num_planes; ++plane) {
    word* __restrict sum = c.plane[plane];
    word* __restrict carry = c.carry;
    for (std::int64_t w = 0; w < words; ++w) {
      const word both = sum[w] & carry[w];
      sum[w] ^= carry[w];
      carry[w] = both;
    }
  }
}

// Adds eight bitmaps to the counters, each bit with the weight 2.
WARPLOOM_INLINE void add_eight(counters& c, const word* const* addends, std::int64_t first, std::int64_t words) {
  const word* __restrict a0 = addends[0] + first;
  const word* __restrict a1 = addends[1] + first;
  const word* __restrict a2 = addends[2] + first;
  const word* __restrict a3 = addends[3] + first;
  const word* __restrict a4 = addends[4] + first;
  const word* __restrict a5 = addends[5] + first;
  const word* __restrict a6 = addends[6] + first;
  const word* __restrict a7 = addends[7] + first;
  word* __restrict twos = c.plane[1];
  word* __restrict fours = c.plane[2];
  word* __restrict eights = c.plane[3];
  word* __restrict carry = c.carry;
  for (std::int64_t w = 0; w < words; ++w) {
    word two = twos[w], four = fours[w], eight = eights[w];
    const word four0 = add(two, a0[w], a1[w]);
    const word four1 = add(two, a2[w], a3[w]);
    const word four2 = add(two, a4[w], a5[w]);
    const word four3 = add(two, a6[w], a7[w]);
    const word eight0 = add(four, four0, four1);
    const word eight1 = add(four, four2, four3);
    carry[w] = add(eight, eight0, eight1);
    twos[w] = two, fours[w] = four, eights[w] = eight;
  }
  ripple(c, 4, words);
}

// The same for four bitmaps.
WARPLOOM_INLINE void add_four(counters& c, const word* const* addends, std::int64_t first, std::int64_t words) {
  const word* __restrict a0 = addends[0] + first;
  const word* __restrict a1 = addends[1] + first;
  const word* __restrict a2 = addends[2] + first;
  const word* __restrict a3 = addends[3] + first;
  word* __restrict twos = c.plane[1];
  word* __restrict fours = c.plane[2];
  word* __restrict carry = c.carry;
  for (std::int64_t w = 0; w < words; ++w) {
    word two = twos[w], four = fours[w];
    const word four0 = add(two, a0[w], a1[w]);
    const word four1 = add(two, a2[w], a3[w]);
    carry[w] = add(four, four0, four1);
    twos[w] = two, fours[w] = four;
  }
  ripple(c, 3, words);
}

WARPLOOM_INLINE word any(const word* words, std::int64_t count) {
  word all = 0;
  for (std::int64_t w = 0; w < count; ++w) all |= words[w];
  return all;
}

// Of the entries in `among`, those with a count above `best` go to `above` and those with exactly `best` to `equal`.
// Returns nonzero if there are any above.
WARPLOOM_INLINE word compare(const counters& c, std::int64_t best, const word* __restrict among, word* __restrict above,
                             word* __restrict equal, std::int64_t words) {
  for (std::int64_t w = 0; w < words; ++w) equal[w] = among[w], above[w] = 0;
  for (int k = c.num_planes - 1; k >= 0; --k) {
    const word* __restrict plane = c.plane[k];
    const word wanted = best >> k & 1 ? ~word{0} : 0;
    for (std::int64_t w = 0; w < words; ++w) {
      above[w] |= equal[w] & plane[w] & ~wanted;
      equal[w] &= ~(plane[w] ^ wanted);
    }
  }
  return any(above, words);
}

// Leaves in `among` the entries with the maximum count and returns that count. `among` is not empty.
WARPLOOM_INLINE std::int64_t greatest(const counters& c, word* __restrict among, std::int64_t words) {
  std::int64_t count = 0;
  alignas(64) word with_bit[chunk_words];
  for (int k = c.num_planes - 1; k >= 0; --k) {
    const word* __restrict plane = c.plane[k];
    for (std::int64_t w = 0; w < words; ++w) with_bit[w] = among[w] & plane[w];
    if (any(with_bit, words) == 0) continue;
    std::copy(with_bit, with_bit + words, among);
    count |= std::int64_t{1} << k;
  }
  return count;
}

struct scan {
  const word* deficits;
  int deficit_planes;
  int num_planes;
  std::int64_t num_words;
  const word* const* addends;  // a multiple of four
  std::int64_t num_addends;
  const word* candidates;
  word* marked;
};

// Counts for every candidate: its deficit + 2 * (addends that hold it). Marks those with the maximum count, and
// returns the word from which on the marks are valid.
WARPLOOM_CPU_CLONES("avx512f", "avx2") std::int64_t mark_greatest(const scan& s) {
  counters c;
  alignas(64) word above[chunk_words];
  c.num_planes = s.num_planes;
  std::int64_t best = -1;
  std::int64_t first_marked = 0;
  for (std::int64_t first = 0; first < s.num_words; first += chunk_words) {
    const std::int64_t words = std::min(chunk_words, s.num_words - first);
    const word* candidates = s.candidates + first;
    word* marked = s.marked + first;
    if (any(candidates, words) == 0) {
      std::fill(marked, marked + words, 0);
      continue;
    }
    for (int k = 0; k < c.num_planes; ++k) {
      if (k < s.deficit_planes) {
        std::copy_n(s.deficits + k * s.num_words + first, words, c.plane[k]);
      } else {
        std::fill_n(c.plane[k], words, 0);
      }
    }
    std::int64_t added = 0;
    for (; added + 8 <= s.num_addends; added += 8) add_eight(c, s.addends + added, first, words);
    if (added < s.num_addends) add_four(c, s.addends + added, first, words);

    if (best < 0) {
      std::copy_n(candidates, words, above);
    } else if (compare(c, best, candidates, above, marked, words) == 0) {
      continue;
    }
    best = greatest(c, above, words);
    std::copy_n(above, words, marked);
    first_marked = first;
  }
  return first_marked;
}

}  // namespace

std::int64_t mask_bitmaps::bytes(std::int64_t num_bits, std::int64_t num_entries) {
  return (num_bits + 1) * words_for(num_entries) * static_cast<std::int64_t>(sizeof(word));
}

void mask_bitmaps::build(const inverted_lists& lists, std::span<const std::int32_t> sizes) {
  const auto num_entries = static_cast<std::int64_t>(sizes.size());
  const auto num_bits = static_cast<std::int32_t>(lists.begin.size()) - 1;
  const auto set = [](word* bitmap, std::int64_t entry) { bitmap[entry / 64] |= word{1} << entry % 64; };
  num_words_ = words_for(num_entries);
  first_marked_word_ = 0;
  marked_.assign(num_words_, 0);

  bitmaps_.assign((num_bits + std::int64_t{1}) * num_words_, 0);
  for (std::int32_t bit = 0; bit < num_bits; ++bit) {
    for (const std::int32_t entry : lists[bit]) set(bitmaps_.data() + bit * num_words_, entry);
  }

  const auto [smallest, largest] = std::minmax_element(sizes.begin(), sizes.end());
  largest_size_ = *largest;
  deficit_planes_ = std::bit_width(static_cast<std::uint32_t>(*largest - *smallest));
  deficits_.assign(deficit_planes_ * num_words_, 0);
  remaining_.assign(num_words_, 0);
  for (std::int64_t entry = 0; entry < num_entries; ++entry) {
    const std::int32_t deficit = largest_size_ - sizes[entry];
    for (int k = 0; k < deficit_planes_; ++k) {
      if (deficit >> k & 1) set(deficits_.data() + k * num_words_, entry);
    }
    set(remaining_.data(), entry);
  }
}

void mask_bitmaps::find_nearest(std::span<const std::int32_t> query) { mark_nearest(query, remaining_.data()); }

void mask_bitmaps::narrow(std::span<const std::int32_t> query) {
  std::fill_n(marked_.begin(), first_marked_word_, 0);
  mark_nearest(query, marked_.data());
}

// distance = |query| + size - 2 overlap, so the distance is minimal where (largest_size - size) + 2 overlap is maximal.
void mask_bitmaps::mark_nearest(std::span<const std::int32_t> query, const std::uint64_t* candidates) {
  const word* empty = bitmaps_.data() + bitmaps_.size() - num_words_;
  addends_.clear();
  for (const std::int32_t bit : query) addends_.push_back(bitmaps_.data() + bit * num_words_);
  while (addends_.size() % 4 != 0) addends_.push_back(empty);

  // No count exceeds largest_size + |query|; add_eight needs its planes 1 to 3 in any case.
  const auto greatest_count = static_cast<std::uint64_t>(largest_size_) + query.size();
  const int num_planes = std::max(4, static_cast<int>(std::bit_width(greatest_count)));
  first_marked_word_ = mark_greatest({deficits_.data(), deficit_planes_, num_planes, num_words_, addends_.data(),
                                      static_cast<std::int64_t>(addends_.size()), candidates, marked_.data()});
}

}  // namespace warploom
