// What the nonzeros of a matrix add to the counts of their rows makes up the counts of sets of lines.
#include "features/row_segment.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "support.hpp"

namespace warploom {
namespace {

struct matrix {
  std::int32_t num_cols = 0;
  std::vector<std::vector<std::int32_t>> rows;

  std::vector<std::int64_t> indptr() const {
    std::vector<std::int64_t> offsets{0};
    for (const auto& row : rows) offsets.push_back(offsets.back() + static_cast<std::int64_t>(row.size()));
    return offsets;
  }
  std::vector<std::int32_t> indices() const {
    std::vector<std::int32_t> all;
    for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
    return all;
  }
};

matrix random_matrix(std::mt19937& random, int num_rows, std::int32_t num_cols, int longest) {
  const auto below = [&](int limit) { return static_cast<int>(random() % limit); };
  matrix made{num_cols, std::vector<std::vector<std::int32_t>>(num_rows)};
  for (auto& row : made.rows) {
    if (below(3) == 0) continue;
    row.resize(below(8) == 0 ? below(longest + 1) : below(6));
    for (auto& column : row) column = below(num_cols);
    std::sort(row.begin(), row.end());  // repeats stay
  }
  return made;
}

struct recorder {
  std::vector<row_counts> rows;
  std::multiset<std::pair<std::int64_t, std::uint32_t>> requests;
  bool found_unsorted = false;
};

uniform_divider by(std::uint32_t divisor) {
  int shift = 0;
  while ((1u << shift) < divisor) ++shift;
  return {divisor, (1u << shift) == divisor ? shift : -1};
}

template <class Position>
recorder count_in(const matrix& A, std::uint32_t line, std::uint32_t block) {
  const std::vector<std::int64_t> wide = A.indptr();
  const std::vector<Position> indptr(wide.begin(), wide.end());
  const std::vector<std::int32_t> columns = A.indices();
  const segment_geometry shape{by(line), by(block), line != block};
  recorder all;
  all.rows.resize(A.rows.size());
  const auto last = static_cast<Position>(A.rows.size()) - 1;
  for (Position j = 0; j < indptr.back(); ++j) {
    const Position row = row_of_nonzero<Position>(indptr, 0, last, j);
    const Position before = row > 0 ? indptr[row - 1] : indptr[row];
    const nonzero_counts found = count_nonzero<Position>(columns, before, indptr[row], j, columns[j],
                                                         j > indptr[row] ? columns[j - 1] : -1, shape);
    if (found.line) all.requests.insert({row, found.number});
    all.rows[row].lines += found.line;
    all.rows[row].shared += found.shared;
    all.rows[row].blocks += found.block;
    all.found_unsorted |= found.descends;
  }
  return all;
}

recorder count(const matrix& A, std::uint32_t line, std::uint32_t block) {
  const recorder narrow = count_in<std::int32_t>(A, line, block);
  recorder wide = count_in<std::int64_t>(A, line, block);
  CHECK(narrow.found_unsorted == wide.found_unsorted);
  for (std::size_t row = 0; row < wide.rows.size(); ++row) {
    CHECK(narrow.rows[row].lines == wide.rows[row].lines);
    CHECK(narrow.rows[row].shared == wide.rows[row].shared);
    CHECK(narrow.rows[row].blocks == wide.rows[row].blocks);
  }
  return wide;
}

std::set<std::uint32_t> groups(const std::vector<std::int32_t>& row, std::uint32_t width) {
  std::set<std::uint32_t> all;
  for (const std::int32_t column : row) all.insert(static_cast<std::uint32_t>(column) / width);
  return all;
}

void check(const matrix& A, std::uint32_t line, std::uint32_t block, const recorder& found) {
  CHECK_FALSE(found.found_unsorted);
  std::multiset<std::pair<std::int64_t, std::uint32_t>> requests;
  std::set<std::uint32_t> before;
  for (std::size_t row = 0; row < A.rows.size(); ++row) {
    const std::set<std::uint32_t> lines = groups(A.rows[row], line);
    std::uint32_t shared = 0;
    for (const std::uint32_t l : lines) {
      requests.insert({static_cast<std::int64_t>(row), l});
      shared += before.count(l);
    }
    CHECK(found.rows[row].lines == lines.size());
    CHECK(found.rows[row].shared == shared);
    CHECK(found.rows[row].blocks == (line == block ? 0 : groups(A.rows[row], block).size()));
    before = lines;
  }
  CHECK(found.requests == requests);
}

}  // namespace

TEST_CASE("count_nonzero: lines, shared lines and blocks of rows") {
  std::mt19937 random(1);
  for (int repeat = 0; repeat < 200; ++repeat) {
    const matrix A = random_matrix(random, 1 + random() % 60, 1 + random() % 300, 120);
    for (const auto& [line, block] : {std::pair{32u, 32u}, {4u, 8u}, {7u, 5u}, {1u, 1u}, {400u, 3u}}) {
      check(A, line, block, count(A, line, block));
    }
  }
}

TEST_CASE("count_nonzero: one row holds everything, and rows before and after hold nothing") {
  matrix A{5000, std::vector<std::vector<std::int32_t>>(40)};
  for (std::int32_t column = 0; column < 5000; ++column) A.rows[17].push_back(column);
  check(A, 32, 8, count(A, 32, 8));
  A.rows[16] = A.rows[17];
  check(A, 32, 8, count(A, 32, 8));
}

TEST_CASE("count_nonzero: a descending column is noticed; a new row isn't one") {
  CHECK(count({64, {{40, 8}}}, 32, 32).found_unsorted);
  CHECK(count({64, {{}, {1, 2, 5, 4}, {9}}}, 32, 32).found_unsorted);
  CHECK_FALSE(count({64, {{40}, {8, 8}, {}, {3}}}, 32, 32).found_unsorted);
}

TEST_CASE("count_nonzero: whatever the offsets are, columns are read only before the nonzero") {
  std::mt19937 random(2);
  struct guarded {
    std::int64_t end = 0;
    std::int32_t operator[](std::int64_t j) const {
      REQUIRE((0 <= j && j < end));
      return static_cast<std::int32_t>(j * 7919 % 64);
    }
  };
  for (int repeat = 0; repeat < 20'000; ++repeat) {
    const auto offset = [&] { return static_cast<std::int64_t>(random() % 200) - 80; };
    const std::int64_t j = random() % 60;
    const auto column = static_cast<std::int32_t>(random() % 64);
    const auto column_before = static_cast<std::int32_t>(random() % 65) - 1;
    const std::int64_t before = offset(), row_begin = offset();
    const nonzero_counts found =
        count_nonzero(guarded{j}, before, row_begin, j, column, column_before, {by(8), by(4), true});
    CHECK(found.number == static_cast<std::uint32_t>(column) / 8);
    CHECK((!found.shared || found.line));
  }
}

}  // namespace warploom
