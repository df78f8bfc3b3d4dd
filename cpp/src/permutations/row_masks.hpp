// The cache masks of Section III-B: bit b of a row's mask is set if the row has a nonzero in the columns
// [b L, (b + 1) L), with L = geometry::elements_per_cache_line. The Hamming distance of two masks says how similar
// the sets of cache lines of B are that the two rows need.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "warploom/csr_view.hpp"
#include "warploom/geometry.hpp"

namespace warploom {

// Distinct masks as sorted lists of set bits, up to two changes that keep every distance:
//  - bits that no row sets may be left out, and the others renumbered;
//  - a bit set in more than half of the masks is inverted in all of them. A column block that nearly every row uses
//    then costs as little as one that hardly any row uses.
struct row_masks {
  std::int32_t num_bits = 0;
  std::vector<std::int32_t> mask_of_row;  // [num_rows] rows of equal mask share one number
  std::vector<std::int64_t> begin = {0};  // [num_masks + 1]
  std::vector<std::int32_t> bits;         // mask m has bits[begin[m]], ..., bits[begin[m + 1] - 1]

  std::int32_t num_masks() const { return static_cast<std::int32_t>(begin.size()) - 1; }
  std::int32_t size(std::int32_t mask) const { return static_cast<std::int32_t>(begin[mask + 1] - begin[mask]); }
  std::span<const std::int32_t> operator[](std::int32_t mask) const {
    return {bits.data() + begin[mask], bits.data() + begin[mask + 1]};
  }
};

row_masks make_row_masks(const csr_pattern& matrix, const geometry& shape);

}  // namespace warploom
