// Warp loads and the orders that follow from them (Sections II-C and III-A).
#pragma once

#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

#include "warploom/permutation.hpp"

namespace warploom {

// Warp load of every row: ceil(nonzeros / threads), the steps a warp needs for the row.
std::vector<std::int64_t> warp_loads(const csr_pattern& matrix, const geometry& shape);

// 0, 1, ..., num_rows - 1.
row_permutation rows_by_index(std::int64_t num_rows);

// Rows by (warp load, index), lowest first.
row_permutation rows_by_increasing_load(const std::vector<std::int64_t>& loads);

// Rows by decreasing warp load; rows of equal load in their original order.
row_permutation rows_by_decreasing_load(const std::vector<std::int64_t>& loads);

// The greedy assignment of LPT: assigns the positions of the permuted matrix. Warp w owns the positions
// w, w + N_w, w + 2 N_w, ... and fills them in that order.
class lpt_positions {
 public:
  lpt_positions(std::int64_t num_rows, int num_warps);

  // The position of a row of that load: the next one of the warp with the smallest load so far that still has a free
  // position; among equals, of the lowest warp.
  std::int64_t place(std::int64_t load);

 private:
  struct warp {
    std::int64_t load;
    std::int64_t position;  // its next free one
    std::int64_t index;

    friend bool operator>(const warp& a, const warp& b) {
      return std::pair(a.load, a.index) > std::pair(b.load, b.index);
    }
  };

  std::int64_t num_rows_;
  std::int64_t num_warps_;
  std::priority_queue<warp, std::vector<warp>, std::greater<>> free_;  // warps that have a free position
};

}  // namespace warploom
