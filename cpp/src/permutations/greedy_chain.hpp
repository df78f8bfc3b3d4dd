// What Warp-Aware Sort, CTA-Aware Sort and Hybrid-2 share: position p takes the remaining row whose mask is nearest to
// that of the row `lag` positions earlier.
#pragma once

#include <cstdint>
#include <span>

#include "warploom/permutation.hpp"

namespace warploom {

struct greedy_chain {
  std::span<const std::int32_t> start;  // the rows at the first positions, `lag` of them or all rows
  std::span<const std::int32_t> order;  // all rows; among equally near rows the one that comes first here is taken
  std::int64_t lag = 1;

  // If not 0: among equally near rows, first those nearest to the row `second_lag` positions earlier (where there is
  // one), then as in `order`.
  std::int64_t second_lag = 0;
};

row_permutation follow(const greedy_chain& chain, const csr_pattern& matrix, const geometry& shape);

}  // namespace warploom
