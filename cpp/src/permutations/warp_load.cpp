#include "permutations/warp_load.hpp"

#include <algorithm>
#include <numeric>

namespace warploom {

std::vector<std::int64_t> warp_loads(const csr_pattern& matrix, const geometry& shape) {
  std::vector<std::int64_t> loads(matrix.num_rows);
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) {
    loads[row] = (matrix.row_length(row) + shape.threads - 1) / shape.threads;
  }
  return loads;
}

row_permutation rows_by_index(std::int64_t num_rows) {
  row_permutation rows(num_rows);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

row_permutation rows_by_increasing_load(const std::vector<std::int64_t>& loads) {
  row_permutation rows = rows_by_index(loads.size());
  std::stable_sort(rows.begin(), rows.end(), [&](auto a, auto b) { return loads[a] < loads[b]; });
  return rows;
}

row_permutation rows_by_decreasing_load(const std::vector<std::int64_t>& loads) {
  row_permutation rows = rows_by_index(loads.size());
  std::stable_sort(rows.begin(), rows.end(), [&](auto a, auto b) { return loads[a] > loads[b]; });
  return rows;
}

lpt_positions::lpt_positions(std::int64_t num_rows, int num_warps) : num_rows_(num_rows), num_warps_(num_warps) {
  for (std::int64_t w = 0; w < std::min(num_rows_, num_warps_); ++w) free_.push({0, w, w});
}

std::int64_t lpt_positions::place(std::int64_t load) {
  warp least = free_.top();
  free_.pop();
  const std::int64_t position = least.position;
  least.load += load;
  least.position += num_warps_;
  if (least.position < num_rows_) free_.push(least);
  return position;
}

}  // namespace warploom
