#include "permutations/greedy_chain.hpp"

#include <algorithm>
#include <vector>

#include "permutations/nearest_rows.hpp"
#include "permutations/row_masks.hpp"

namespace warploom {

row_permutation follow(const greedy_chain& chain, const csr_pattern& matrix, const geometry& shape) {
  row_permutation perm(chain.start.begin(), chain.start.end());
  perm.reserve(matrix.num_rows);

  std::vector<bool> started(matrix.num_rows, false);
  for (const std::int32_t row : chain.start) started[row] = true;
  std::vector<std::int32_t> rest;
  rest.reserve(matrix.num_rows);
  std::copy_if(chain.order.begin(), chain.order.end(), std::back_inserter(rest),
               [&](auto row) { return !started[row]; });
  if (rest.empty()) return perm;

  const row_masks masks = make_row_masks(matrix, shape);
  nearest_rows pool(masks);
  pool.fill(rest);
  while (!pool.empty()) {
    const auto p = static_cast<std::int64_t>(perm.size());
    const std::int32_t row = perm[p - chain.lag];
    const bool has_second = chain.second_lag > 0 && p >= chain.second_lag;
    perm.push_back(has_second ? pool.take_nearest(row, perm[p - chain.second_lag]) : pool.take_nearest(row));
  }
  return perm;
}

}  // namespace warploom
