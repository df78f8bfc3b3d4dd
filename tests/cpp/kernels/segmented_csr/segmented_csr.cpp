// Segments cover every nonzero and every row of C exactly once, in either order, and refuse what int32 cannot hold.
#include "kernels/segmented_csr/segmented_csr.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "support.hpp"

namespace warploom {
namespace {

// Rows of the given lengths; `row_ids` may leave rows of C out.
row_storage make_rows(const std::vector<std::int64_t>& lengths, std::vector<std::int32_t> row_ids,
                      std::int64_t num_rows) {
  row_storage rows;
  rows.num_rows = num_rows;
  rows.num_cols = 1;
  rows.indptr.push_back(0);
  for (const std::int64_t length : lengths) rows.indptr.push_back(rows.indptr.back() + length);
  rows.row_ids = std::move(row_ids);
  return rows;
}

void check_covers(const row_storage& rows, const segmented_csr& cut) {
  std::vector<int> visits(rows.nnz(), 0);
  std::vector<std::int64_t> row_nonzeros(rows.num_rows, 0);
  std::vector<int> writers(rows.num_rows, 0);
  std::vector<std::int32_t> row_of_partial(cut.num_partials, -1);
  std::vector<std::int32_t> begin_of_partial(cut.num_partials, -1);
  for (const segment& s : cut.segments) {
    REQUIRE_MESSAGE((0 <= s.length && s.length <= cut.segment_length), "segment length");
    for (std::int32_t e = s.begin; e < s.begin + s.length; ++e) ++visits[e];
    row_nonzeros[s.row] += s.length;
    if (s.partial < 0) {
      ++writers[s.row];
    } else {
      REQUIRE_MESSAGE(row_of_partial[s.partial] < 0, "one segment per slot");
      row_of_partial[s.partial] = s.row;
      begin_of_partial[s.partial] = s.begin;
    }
  }
  std::int64_t next_partial = 0;
  for (const split_row& split : cut.split_rows) {
    CHECK_MESSAGE((split.first_partial == next_partial && split.count > 1), "slots of a split row");
    next_partial += split.count;
    ++writers[split.row];
    for (std::int32_t i = split.first_partial; i < next_partial; ++i) {
      CHECK_MESSAGE(row_of_partial[i] == split.row, "slot belongs to its row");
      CHECK_MESSAGE((i == split.first_partial || begin_of_partial[i] > begin_of_partial[i - 1]),
                    "slots in stored order");
    }
  }
  CHECK_MESSAGE(next_partial == cut.num_partials, "every slot is added");
  for (const int count : visits) CHECK_MESSAGE(count == 1, "every nonzero once");
  for (const int count : writers) CHECK_MESSAGE(count == 1, "every row of C written once");
  for (std::int64_t p = 0; p < rows.num_stored_rows(); ++p) {
    const std::int64_t row = rows.row_ids.empty() ? p : rows.row_ids[p];
    CHECK_MESSAGE(row_nonzeros[row] == rows.indptr[p + 1] - rows.indptr[p], "nonzeros of a row");
  }
}

void check_both_orders(const row_storage& rows, int segment_length) {
  const segmented_csr stored = to_segmented(rows, segment_length, false);
  const segmented_csr sorted = to_segmented(rows, segment_length, true);
  check_covers(rows, stored);
  check_covers(rows, sorted);
  std::vector<segment> expected = stored.segments;
  std::stable_sort(expected.begin(), expected.end(),
                   [](const segment& a, const segment& b) { return a.length > b.length; });
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK_MESSAGE((expected[i].row == sorted.segments[i].row && expected[i].begin == sorted.segments[i].begin &&
                   expected[i].partial == sorted.segments[i].partial),
                  "stable, by decreasing length");
  }
}

}  // namespace

TEST_CASE("to_segmented: every nonzero and every row of C once, in either order") {
  for (const int segment_length : {1, 3, 4, 32}) {
    CAPTURE(segment_length);
    check_both_orders(make_rows({}, {}, 0), segment_length);
    check_both_orders(make_rows({0, 0}, {}, 2), segment_length);
    check_both_orders(make_rows({4, 0, 9, 1, 100, 3, 4, 33, 0}, {}, 9), segment_length);
    check_both_orders(make_rows({4, 0, 9, 1}, {3, 1, 0, 2}, 4), segment_length);
    check_both_orders(make_rows({5, 40}, {6, 2}, 8), segment_length);
  }
}

TEST_CASE("segmented-csr: the matrix comes back, whatever the order of its rows") {
  const csr_matrix matrix = test::make_csr(6, {{}, {5, 0, 5}, {1}, {0, 1, 2, 3, 4}, {}});
  for (const std::vector<std::int32_t>& perm : {std::vector<std::int32_t>{}, {3, 0, 4, 1, 2}}) {
    for (const bool longest_first : {false, true}) {
      const csr_matrix back = to_csr(to_segmented(store_all_rows(matrix.view(), perm), 2, longest_first));
      CHECK(back.indptr == matrix.indptr);
      CHECK(back.indices == matrix.indices);
      CHECK(back.data == matrix.data);
    }
  }
}

TEST_CASE("to_segmented: refuses 2^31 nonzeros") {
  const row_storage rows = make_rows({std::int64_t{1} << 31}, {}, 1);
  CHECK(test::error_of([&] { to_segmented(rows, 128, true); }).kind() == error_kind::index_overflow);
}

}  // namespace warploom
