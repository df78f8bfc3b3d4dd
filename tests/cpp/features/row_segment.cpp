// The segments of a matrix, counted as the threads of a GPU do, add up to the counts of sets of lines.
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
  std::vector<int> told_whole;
  std::multiset<std::pair<std::int64_t, std::uint32_t>> requests;
  bool found_unsorted = false;

  void request(std::uint32_t line, std::int64_t row) { requests.insert({row, line}); }
  void whole_row(std::int64_t row, const row_counts& counts) {
    ++told_whole[row];
    part_of_row(row, counts);
  }
  void part_of_row(std::int64_t row, const row_counts& counts) {
    rows[row].lines += counts.lines;
    rows[row].shared += counts.shared;
    rows[row].blocks += counts.blocks;
  }
  void unsorted() { found_unsorted = true; }
};

uniform_divider by(std::uint32_t divisor) {
  int shift = 0;
  while ((1u << shift) < divisor) ++shift;
  return {divisor, (1u << shift) == divisor ? shift : -1};
}

// Blocks of `per_block` nonzeros whose threads take `per_thread` each, and look for rows among those of the block.
template <class Position>
recorder count_by(const matrix& A, std::uint32_t line, std::uint32_t block, int per_thread, int per_block) {
  const std::vector<std::int64_t> wide = A.indptr();
  const std::vector<Position> indptr(wide.begin(), wide.end());
  const std::vector<std::int32_t> columns = A.indices();
  const segment_geometry shape{by(line), by(block), line != block};
  recorder found;
  found.rows.resize(A.rows.size());
  found.told_whole.resize(A.rows.size());
  const Position nnz = indptr.back();
  const auto last = static_cast<Position>(A.rows.size()) - 1;
  for (Position begin = 0; begin < nnz; begin += per_block) {
    const Position end = std::min<Position>(nnz, begin + per_block);
    const Position first_row = row_of_nonzero<Position>(indptr, 0, last, begin);
    const Position last_row = row_of_nonzero<Position>(indptr, 0, last, end - 1);
    for (Position j = begin; j < end; j += per_thread) {
      row_counts open;
      const Position row = count_segment<Position>(indptr, columns, j, std::min<Position>(end, j + per_thread),
                                                   first_row, last_row, shape, found, open);
      found.part_of_row(row, open);
    }
  }
  return found;
}

recorder count(const matrix& A, std::uint32_t line, std::uint32_t block, int per_thread, int per_block) {
  const recorder narrow = count_by<std::int32_t>(A, line, block, per_thread, per_block);
  recorder wide = count_by<std::int64_t>(A, line, block, per_thread, per_block);
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
    CHECK(found.told_whole[row] <= 1);
    before = lines;
  }
  CHECK(found.requests == requests);
}

}  // namespace

TEST_CASE("count_segment: lines, shared lines and blocks of rows however they are cut") {
  std::mt19937 random(1);
  for (int repeat = 0; repeat < 60; ++repeat) {
    const matrix A = random_matrix(random, 1 + random() % 60, 1 + random() % 300, 120);
    for (const auto& [line, block] : {std::pair{32u, 32u}, {4u, 8u}, {7u, 5u}, {1u, 1u}, {400u, 3u}}) {
      for (const auto& [per_thread, per_block] : {std::pair{7, 56}, {1, 4}, {7, 7000}, {3, 3}}) {
        check(A, line, block, count(A, line, block, per_thread, per_block));
      }
    }
  }
}

TEST_CASE("count_segment: one row holds everything, and rows before and after hold nothing") {
  matrix A{5000, std::vector<std::vector<std::int32_t>>(40)};
  for (std::int32_t column = 0; column < 5000; ++column) A.rows[17].push_back(column);
  check(A, 32, 8, count(A, 32, 8, 7, 1792));
  A.rows[16] = A.rows[17];
  check(A, 32, 8, count(A, 32, 8, 7, 1792));
}

TEST_CASE("count_segment: a descending column is noticed wherever the segments begin; a new row isn't one") {
  for (const int per_thread : {1, 2, 3, 7}) {
    CHECK(count({64, {{40, 8}}}, 32, 32, per_thread, 7).found_unsorted);
    CHECK(count({64, {{}, {1, 2, 5, 4}, {9}}}, 32, 32, per_thread, 7).found_unsorted);
    CHECK_FALSE(count({64, {{40}, {8, 8}, {}, {3}}}, 32, 32, per_thread, 7).found_unsorted);
  }
}

TEST_CASE("count_segment: whatever indptr holds, columns are read only before the end of the segment") {
  std::mt19937 random(2);
  struct guarded {
    std::int64_t end = 0;
    std::int32_t operator[](std::int64_t j) const {
      REQUIRE((0 <= j && j < end));
      return static_cast<std::int32_t>(j * 7919 % 64);
    }
  };
  struct guarded_offsets {
    std::vector<std::int64_t> values;
    std::int64_t operator[](std::int64_t i) const {
      REQUIRE((0 <= i && i < static_cast<std::int64_t>(values.size())));
      return values[i];
    }
  };
  for (int repeat = 0; repeat < 2000; ++repeat) {
    guarded_offsets indptr{std::vector<std::int64_t>(2 + random() % 12)};
    for (auto& offset : indptr.values) offset = static_cast<std::int64_t>(random() % 200) - 80;
    const auto last = static_cast<std::int64_t>(indptr.values.size()) - 2;
    std::int64_t first_row = random() % (last + 1);
    std::int64_t last_row = random() % (last + 1);
    if (first_row > last_row) std::swap(first_row, last_row);
    const std::int64_t begin = random() % 60;
    const std::int64_t end = begin + 1 + random() % 7;
    recorder found;
    found.rows.resize(indptr.values.size());
    found.told_whole.resize(indptr.values.size());
    row_counts open;
    const std::int64_t row =
        count_segment(indptr, guarded{end}, begin, end, first_row, last_row, {by(8), by(4), true}, found, open);
    CHECK((first_row <= row && row <= last_row));
  }
}

}  // namespace warploom
