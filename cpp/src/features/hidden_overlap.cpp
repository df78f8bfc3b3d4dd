#include "features/hidden_overlap.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "permutations/chunks.hpp"
#include "warploom/locality.hpp"

namespace warploom {
namespace {

using overlap::num_samples;

constexpr std::array names{"hidden_overlap"};
constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();

struct sample {
  std::int32_t column;
  std::int64_t place;
  std::int64_t next = none;  // place of the next nonzero in the column
  auto operator<=>(const sample&) const = default;
};

// One for each distinct column, in ascending order.
std::vector<sample> samples_of(const csr_pattern& matrix) {
  std::vector<sample> samples;
  for (std::int64_t i = 0; i < num_samples; ++i) {
    const std::int64_t place = overlap::place_of_sample(i, matrix.nnz());
    samples.push_back({matrix.indices[place], place});
  }
  std::sort(samples.begin(), samples.end());
  const auto same_column = [](const sample& a, const sample& b) { return a.column == b.column; };
  samples.erase(std::unique(samples.begin(), samples.end(), same_column), samples.end());
  return samples;
}

void find_next(const csr_pattern& matrix, std::vector<sample>& samples) {
  constexpr std::int64_t grain = 1 << 16;
  static_assert(num_samples < std::numeric_limits<std::uint16_t>::max());
  std::vector<std::uint16_t> number(matrix.num_cols);  // of the column's sample, from 1; 0: it has none
  for (std::size_t i = 0; i < samples.size(); ++i) number[samples[i].column] = static_cast<std::uint16_t>(i + 1);
  for_chunks(matrix.nnz(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = begin; j < end; ++j) {
      const std::uint16_t i = number[matrix.indices[j]];
      if (i != 0 && j > samples[i - 1].place) lower_shared(samples[i - 1].next, j);
    }
  });
}

std::int64_t row_of(const csr_pattern& matrix, std::int64_t place) {
  return std::upper_bound(matrix.indptr, matrix.indptr + matrix.num_rows + 1, place) - matrix.indptr - 1;
}

std::vector<std::int32_t> distinct_columns(const csr_pattern& matrix, std::int64_t row, std::int64_t place) {
  const overlap::window around(matrix.indptr[row], matrix.indptr[row + 1], place);
  std::vector<std::int32_t> columns(matrix.indices + around.begin, matrix.indices + around.end);
  std::sort(columns.begin(), columns.end());
  columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
  return columns;
}

overlap::counts compare(const csr_pattern& matrix, const sample& one) {
  if (one.next == none) return {};
  const std::int64_t a = row_of(matrix, one.place), b = row_of(matrix, one.next);
  if (a == b) return {};  // an entry that repeats
  const auto of_a = distinct_columns(matrix, a, one.place), of_b = distinct_columns(matrix, b, one.next);
  std::vector<std::int32_t> common;
  std::set_intersection(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), std::back_inserter(common));
  return {static_cast<std::int64_t>(common.size()) - 1,
          static_cast<std::int64_t>(std::min(of_a.size(), of_b.size())) - 1};
}

}  // namespace

std::span<const char* const> overlap_feature_names() { return names; }

double hidden_overlap(const csr_pattern& matrix, std::int64_t fewest_nonzeros) {
  if (matrix.nnz() < fewest_nonzeros || matrix.nnz() == 0) return not_measured;
  std::vector<sample> samples = samples_of(matrix);
  find_next(matrix, samples);
  overlap::counts sum;
  for (const sample& one : samples) {
    const overlap::counts found = compare(matrix, one);
    sum.common += found.common;
    sum.possible += found.possible;
  }
  return overlap::value_of(sum);
}

}  // namespace warploom
