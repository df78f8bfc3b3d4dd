// Features of locality, each from a sample that does not grow with the matrix.
//
//   columns_per_nonzero_W    distinct columns per nonzero within windows of W rows: rows of B that SpMM has to fetch
//   sectors_per_nonzero_W    distinct sectors of four columns, 32 bytes of a float64 vector: what SpMV has to fetch
//   reused_within_D          share of nonzeros whose sector was used by one of the D nonzeros before
//   first_uses               share of nonzeros whose sector was not used before
//   mean_distance            mean distance of a nonzero from the diagonal, as a share of the columns
//   mean_span                mean distance of a row's first and last columns, as a share of the columns
//   adjacent_overlap         share of columns that adjacent rows have in common
//   hidden_overlap           the same for rows that use a column one after the other, wherever they are, without that
//                            column: high where rows are alike that could be brought together, near 0 at random; -1
//                            below 10^6 nonzeros (hidden_overlap.hpp)
//   hub_share                share of nonzeros in the 4,096 columns used most
//
// Reuse is followed for a part of the sectors only, chosen by a hash (Waldspurger et al., "Efficient MRC construction
// with SHARDS", 2015). The columns used most are found in one half of a sample and counted in the other.
#include "warploom/locality.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <utility>

#include "permutations/chunks.hpp"

namespace warploom {
namespace {

constexpr std::int64_t sector_columns = 4;
constexpr std::array<std::int64_t, 3> windows = {32, 1024, 16384};
constexpr std::array<std::int64_t, 3> distances = {1 << 10, 1 << 14, 1 << 18};
constexpr std::int64_t sampled_nonzeros = 1 << 18;  // of each feature, about
constexpr std::int64_t sampled_rows = 1 << 12;
constexpr std::size_t num_hubs = 4096;

constexpr const char* names[] = {
    "columns_per_nonzero_32",
    "columns_per_nonzero_1024",
    "columns_per_nonzero_16384",
    "sectors_per_nonzero_32",
    "sectors_per_nonzero_1024",
    "sectors_per_nonzero_16384",
    "reused_within_1024",
    "reused_within_16384",
    "reused_within_262144",
    "first_uses",
    "mean_distance",
    "mean_span",
    "adjacent_overlap",
    "hidden_overlap",
    "hub_share",
};

double ratio(double part, double whole) { return whole == 0 ? 0 : part / whole; }

// The i-th of `count` positions spread evenly over `size`.
std::int64_t spread(std::int64_t i, std::int64_t count, std::int64_t size) {
  return static_cast<std::int64_t>(static_cast<double>(i) * static_cast<double>(size) / static_cast<double>(count));
}

std::uint64_t hash_of(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

std::vector<std::int32_t> sorted_columns(const csr_pattern& matrix, std::int64_t begin, std::int64_t end) {
  std::vector<std::int32_t> columns(matrix.indices + matrix.indptr[begin], matrix.indices + matrix.indptr[end]);
  std::sort(columns.begin(), columns.end());
  return columns;
}

struct distinct {
  std::int64_t nonzeros = 0, columns = 0, sectors = 0;
};

// Windows spread over the matrix, of about sampled_nonzeros together but at least one.
distinct distinct_in_windows(const csr_pattern& matrix, std::int64_t rows_of_window) {
  const std::int64_t all = (matrix.num_rows + rows_of_window - 1) / rows_of_window;
  const std::int64_t nonzeros_of_window = std::max<std::int64_t>(matrix.nnz() / std::max<std::int64_t>(all, 1), 1);
  const std::int64_t count =
      std::clamp<std::int64_t>(sampled_nonzeros / nonzeros_of_window, std::min<std::int64_t>(all, 1), all);
  std::vector<distinct> found(count);
  for_chunks(count, 1, [&](std::int64_t i, std::int64_t) {
    const std::int64_t first = spread(i, count, all) * rows_of_window;
    const auto columns = sorted_columns(matrix, first, std::min(matrix.num_rows, first + rows_of_window));
    found[i].nonzeros = static_cast<std::int64_t>(columns.size());
    for (std::size_t j = 0; j < columns.size(); ++j) {
      if (j == 0 || columns[j] != columns[j - 1]) ++found[i].columns;
      if (j == 0 || columns[j] / sector_columns != columns[j - 1] / sector_columns) ++found[i].sectors;
    }
  });
  distinct sum;
  for (const distinct& d : found) {
    sum.nonzeros += d.nonzeros;
    sum.columns += d.columns;
    sum.sectors += d.sectors;
  }
  return sum;
}

// The uses of some of the sectors, by (sector, place): places are those of nonzeros.
std::vector<std::pair<std::int32_t, std::int64_t>> sampled_uses(const csr_pattern& matrix) {
  const double share = std::min(1.0, ratio(static_cast<double>(sampled_nonzeros), static_cast<double>(matrix.nnz())));
  const auto limit = static_cast<std::uint64_t>(share * 0x1p32);
  constexpr std::int64_t grain = 1 << 16;
  std::vector<std::vector<std::pair<std::int32_t, std::int64_t>>> parts((matrix.nnz() + grain - 1) / grain);
  for_chunks(static_cast<std::int64_t>(parts.size()), 1, [&](std::int64_t part, std::int64_t) {
    for (std::int64_t j = part * grain; j < std::min(matrix.nnz(), (part + 1) * grain); ++j) {
      const auto sector = static_cast<std::int32_t>(matrix.indices[j] / sector_columns);
      if (hash_of(sector) >> 32 < limit) parts[part].emplace_back(sector, j);
    }
  });
  std::vector<std::pair<std::int32_t, std::int64_t>> uses;
  for (const auto& part : parts) uses.insert(uses.end(), part.begin(), part.end());
  sort_in_parallel(uses, std::less<>());
  return uses;
}

struct shared_columns {
  std::int64_t common = 0, possible = 0;
};

// Distinct columns that two rows have in common, and the most that they could have.
shared_columns columns_shared_by(const csr_pattern& matrix, std::int64_t a, std::int64_t b) {
  auto of_a = sorted_columns(matrix, a, a + 1), of_b = sorted_columns(matrix, b, b + 1);
  of_a.erase(std::unique(of_a.begin(), of_a.end()), of_a.end());
  of_b.erase(std::unique(of_b.begin(), of_b.end()), of_b.end());
  std::int64_t common = 0;
  for (auto x = of_a.begin(), y = of_b.begin(); x != of_a.end() && y != of_b.end();) {
    if (*x == *y) ++common;
    const bool advance_x = *x <= *y, advance_y = *y <= *x;
    x += advance_x;
    y += advance_y;
  }
  return {common, static_cast<std::int64_t>(std::min(of_a.size(), of_b.size()))};
}

double adjacent_overlap(const csr_pattern& matrix) {
  shared_columns sum;
  const std::int64_t pairs = std::max<std::int64_t>(matrix.num_rows - 1, 0), count = std::min(pairs, sampled_rows);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = spread(i, count, pairs);
    const shared_columns found = columns_shared_by(matrix, row, row + 1);
    sum.common += found.common;
    sum.possible += found.possible;
  }
  return ratio(static_cast<double>(sum.common), static_cast<double>(sum.possible));
}

double hub_share(const csr_pattern& matrix) {
  const std::int64_t count = std::min(matrix.nnz(), sampled_nonzeros);
  std::array<std::vector<std::int32_t>, 2> halves;
  for (std::int64_t i = 0; i < count; ++i) halves[i % 2].push_back(matrix.indices[spread(i, count, matrix.nnz())]);
  for (auto& half : halves) std::sort(half.begin(), half.end());
  std::vector<std::pair<std::int64_t, std::int32_t>> by_count;  // the most used first
  for (std::size_t i = 0, end = 0; i < halves[0].size(); i = end) {
    while (end < halves[0].size() && halves[0][end] == halves[0][i]) ++end;
    by_count.emplace_back(-static_cast<std::int64_t>(end - i), halves[0][i]);
  }
  std::sort(by_count.begin(), by_count.end());
  by_count.resize(std::min(by_count.size(), num_hubs));
  std::int64_t used = 0;
  for (const auto& [_, column] : by_count) {
    const auto [first, last] = std::equal_range(halves[1].begin(), halves[1].end(), column);
    used += last - first;
  }
  return ratio(static_cast<double>(used), static_cast<double>(halves[1].size()));
}

}  // namespace

std::span<const char* const> locality_feature_names() { return names; }

std::vector<double> locality_features(const csr_pattern& matrix) {
  std::vector<double> columns, sectors, values;
  for (const std::int64_t rows : windows) {
    const distinct found = distinct_in_windows(matrix, rows);
    columns.push_back(ratio(static_cast<double>(found.columns), static_cast<double>(found.nonzeros)));
    sectors.push_back(ratio(static_cast<double>(found.sectors), static_cast<double>(found.nonzeros)));
  }
  values.insert(values.end(), columns.begin(), columns.end());
  values.insert(values.end(), sectors.begin(), sectors.end());

  const auto uses = sampled_uses(matrix);
  std::array<std::int64_t, distances.size()> within{};
  std::int64_t first_uses = 0;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (i == 0 || uses[i].first != uses[i - 1].first) {
      ++first_uses;
      continue;
    }
    for (std::size_t d = 0; d < distances.size(); ++d) within[d] += uses[i].second - uses[i - 1].second <= distances[d];
  }
  const auto all_uses = static_cast<double>(uses.size());
  for (const std::int64_t count : within) values.push_back(ratio(static_cast<double>(count), all_uses));
  values.push_back(ratio(static_cast<double>(first_uses), all_uses));

  // In integers, so that sums do not depend on their order.
  std::int64_t distance = 0, nonzeros = 0, span = 0, occupied = 0;
  const std::int64_t rows = std::min(matrix.num_rows, sampled_rows);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t row = spread(i, rows, matrix.num_rows);
    const std::int64_t diagonal = spread(row, matrix.num_rows, matrix.num_cols);
    const std::span of_row(matrix.indices + matrix.indptr[row], matrix.indices + matrix.indptr[row + 1]);
    if (of_row.empty()) continue;
    for (const std::int32_t column : of_row) distance += std::abs(column - diagonal);
    nonzeros += static_cast<std::int64_t>(of_row.size());
    const auto [least, most] = std::minmax_element(of_row.begin(), of_row.end());
    span += *most - *least;
    ++occupied;
  }
  const auto num_cols = static_cast<double>(matrix.num_cols);
  values.push_back(ratio(static_cast<double>(distance), static_cast<double>(nonzeros) * num_cols));
  values.push_back(ratio(static_cast<double>(span), static_cast<double>(occupied) * num_cols));
  values.push_back(adjacent_overlap(matrix));
  values.push_back(hidden_overlap(matrix));
  values.push_back(hub_share(matrix));
  return values;
}

}  // namespace warploom
