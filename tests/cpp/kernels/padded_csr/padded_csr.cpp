// Every entry is where its row and position say, and everything else is marked as padding.
#include "kernels/padded_csr/padded_csr.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include "support.hpp"
#include "warploom/kernels/product.hpp"
#include "warploom/permutation.hpp"

namespace warploom {
namespace {

void check_padded(const csr_matrix& matrix, const row_permutation& perm, int width) {
  const padded_csr padded = to_padded(store_all_rows(matrix.view(), perm));
  CHECK(padded.num_rows == matrix.num_rows);
  CHECK(padded.num_cols == matrix.num_cols);
  CHECK(padded.dtype == matrix.dtype);
  CHECK(padded.row_ids == perm);
  CHECK(padded.width == width);
  CHECK(padded_width(summarize(matrix.view()).longest_row) == width);
  const std::size_t entries = matrix.num_rows * width;
  REQUIRE(padded.indices.size() == entries);
  REQUIRE(padded.data.size() == entries * size_of(matrix.dtype));
  CHECK(padded.bytes() == entries * (4 + size_of(matrix.dtype)) + 4 * perm.size());
  for (std::int64_t p = 0; p < matrix.num_rows; ++p) {
    const std::int64_t row = perm.empty() ? p : perm[p];
    const std::int64_t length = matrix.indptr[row + 1] - matrix.indptr[row];
    for (std::int64_t i = 0; i < width; ++i) {
      CAPTURE(p);
      CAPTURE(i);
      const std::int64_t entry = p * width + i;
      const std::int64_t nonzero = matrix.indptr[row] + i;
      CHECK(padded.indices[entry] == (i < length ? matrix.indices[nonzero] : -1));
      CHECK(test::value_at(padded.data.data(), entry, matrix.dtype) ==
            (i < length ? test::value_at(matrix.data.data(), nonzero, matrix.dtype) : 0));
    }
  }
  const csr_matrix back = to_csr(padded);
  CHECK(back.indptr == matrix.indptr);
  CHECK(back.indices == matrix.indices);
  CHECK(back.data == matrix.data);
}

}  // namespace

TEST_CASE("to_padded: every entry, in the caller's order and permuted") {
  for (const value_type dtype : {value_type::float32, value_type::float64}) {
    const csr_matrix matrix = test::make_csr(6, {{}, {5, 0, 5}, {1}, {0, 1, 2, 3, 4}, {}}, dtype);
    check_padded(matrix, {}, 8);
    check_padded(matrix, {3, 0, 4, 1, 2}, 8);
  }
}

TEST_CASE("to_padded: the width is the longest row, rounded up to a multiple of four") {
  for (const auto& [longest, width] : {std::pair{0, 0}, {1, 4}, {3, 4}, {4, 4}, {5, 8}, {8, 8}, {9, 12}}) {
    CAPTURE(longest);
    check_padded(test::make_csr(1, {{}, std::vector<std::int32_t>(longest, 0)}), {}, width);
  }
}

TEST_CASE("to_padded: no rows, and more rows than one thread takes") {
  check_padded(test::make_csr(3, {}), {}, 0);
  std::vector<std::vector<std::int32_t>> rows(10000);
  for (std::int32_t row = 0; row < 10000; ++row) rows[row].assign(row % 4, row);
  check_padded(test::make_csr(10000, rows), {}, 4);
}

}  // namespace warploom
