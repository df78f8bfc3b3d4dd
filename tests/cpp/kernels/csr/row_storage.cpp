// Every nonzero is stored once, in the row of C that it belongs to, whichever rows are moved or left out.
#include "kernels/csr/row_storage.hpp"

#include <cstdint>
#include <vector>

#include "support.hpp"
#include "warploom/permutation.hpp"

namespace warploom {
namespace {

const row_permutation orders[] = {{}, {0, 1, 2, 3, 4}, {4, 2, 3, 0, 1}};

csr_matrix example(value_type dtype) { return test::make_csr(5, {{}, {3, 0}, {}, {2, 2, 1}, {4}}, dtype); }

// Stored row p is row perm[p] of the matrix, but for rows that are left out.
void check_stores(const row_storage& rows, const csr_matrix& matrix, const row_permutation& perm, bool empty_rows) {
  CHECK(rows.num_rows == matrix.num_rows);
  CHECK(rows.num_cols == matrix.num_cols);
  CHECK(rows.dtype == matrix.dtype);
  CHECK(rows.nnz() == matrix.nnz());
  CHECK((rows.indices == matrix.indices.data()) == !rows.owner);
  std::int64_t stored = 0;
  for (std::int64_t p = 0; p < matrix.num_rows; ++p) {
    const std::int64_t row = perm.empty() ? p : perm[p];
    const std::int64_t length = matrix.indptr[row + 1] - matrix.indptr[row];
    if (length == 0 && !empty_rows) continue;
    CAPTURE(row);
    REQUIRE(stored < rows.num_stored_rows());
    CHECK((rows.row_ids.empty() ? stored : rows.row_ids[stored]) == row);
    REQUIRE(rows.indptr[stored + 1] - rows.indptr[stored] == length);
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t to = rows.indptr[stored] + i;
      const std::int64_t from = matrix.indptr[row] + i;
      CHECK(rows.indices[to] == matrix.indices[from]);
      CHECK(test::value_at(rows.data, to, rows.dtype) == test::value_at(matrix.data.data(), from, matrix.dtype));
    }
    ++stored;
  }
  CHECK(rows.num_stored_rows() == stored);
  CHECK(rows.stores_every_row() == (stored == matrix.num_rows));
}

}  // namespace

TEST_CASE("store_all_rows: every row, in the order of the permutation") {
  for (const value_type dtype : {value_type::float32, value_type::float64}) {
    const csr_matrix matrix = example(dtype);
    for (const row_permutation& perm : orders) {
      const row_storage rows = store_all_rows(matrix.view(), perm);
      CHECK(!rows.owner == perm.empty());  // nothing is copied unless rows are moved
      check_stores(rows, matrix, perm, true);
    }
  }
}

TEST_CASE("store_nonempty_rows: only rows that have nonzeros, in the order of the permutation") {
  for (const value_type dtype : {value_type::float32, value_type::float64}) {
    const csr_matrix matrix = example(dtype);
    for (const row_permutation& perm : orders) {
      check_stores(store_nonempty_rows(matrix.view(), perm), matrix, perm, false);
    }
  }
}

TEST_CASE("store rows: matrices without rows, without columns, without nonzeros") {
  for (const csr_matrix& matrix : {test::make_csr(3, {}), test::make_csr(0, {{}, {}}), test::make_csr(3, {{}})}) {
    check_stores(store_all_rows(matrix.view(), {}), matrix, {}, true);
    check_stores(store_nonempty_rows(matrix.view(), {}), matrix, {}, false);
  }
}

TEST_CASE("own_arrays: the rows stay what they are when the matrix they came from changes") {
  for (const value_type dtype : {value_type::float16, value_type::float32, value_type::float64}) {
    for (const row_permutation& perm : orders) {
      const csr_matrix expected = example(dtype);
      csr_matrix matrix = expected;
      const row_storage all = own_arrays(store_all_rows(matrix.view(), perm));
      const row_storage nonempty = own_arrays(store_nonempty_rows(matrix.view(), perm));
      CHECK(all.owner->bytes() >= matrix.indices.size() * sizeof(std::int32_t) + matrix.data.size());
      matrix.indices.assign(matrix.indices.size(), 1 << 30);
      matrix.data.assign(matrix.data.size(), std::byte{0xff});
      check_stores(all, expected, perm, true);
      check_stores(nonempty, expected, perm, false);
    }
  }
}

TEST_CASE("store rows: moved rows outlive the matrix they came from") {
  row_storage rows;
  {
    const csr_matrix matrix = example(value_type::float32);
    rows = store_all_rows(matrix.view(), orders[2]);
  }
  CHECK(rows.indices[0] == 4);
  CHECK(test::value_at(rows.data, 0, rows.dtype) == 6);
}

}  // namespace warploom
