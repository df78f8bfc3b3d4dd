// Windows are stored as vectors from a number of nonzeros per vector on, every row is in one of the two parts, and no
// entries are added up.
#include "kernels/hybrid_vectors/hybrid_vectors.hpp"

#include <cstdint>
#include <vector>

#include "support.hpp"

namespace warploom {
namespace {

using rows = std::vector<std::vector<std::int32_t>>;

// 19 rows: two nonzeros in each vector, one in each, and a last window of three rows alike.
rows three_windows() {
  rows result(8);
  for (std::int32_t i = 0; i < 8; ++i) result[i] = {i / 2, 10 + i / 2};
  for (std::int32_t i = 0; i < 8; ++i) result.push_back({i});
  for (int i = 0; i < 3; ++i) result.push_back({0, 5, 9});
  return result;
}

std::vector<std::int32_t> range(std::int32_t first, std::int32_t last) {
  std::vector<std::int32_t> result;
  for (std::int32_t i = first; i < last; ++i) result.push_back(i);
  return result;
}

}  // namespace

TEST_CASE("windows are stored as vectors from a number of nonzeros per vector on") {
  const csr_matrix matrix = test::make_csr(20, three_windows());
  const hybrid_vectors two = to_hybrid_vectors(matrix.view(), 2);
  std::vector<std::int32_t> expected = range(0, 8);
  expected.insert(expected.end(), {16, 17, 18});
  CHECK(two.vector_rows == expected);
  CHECK(two.other_rows == range(8, 16));
  CHECK(two.vectors.num_rows == 11);
  CHECK(two.vectors.indptr == std::vector<std::int64_t>{0, 8, 11});
  CHECK(two.vectors.indices == std::vector<std::int32_t>{0, 1, 2, 3, 10, 11, 12, 13, 0, 5, 9});
  CHECK(two.others.num_rows == 8);
  CHECK(two.others.indices == range(0, 8));
  CHECK(two.nnz() == matrix.nnz());
  CHECK(two.places() == 8 * 11 + 8);
  CHECK(to_hybrid_vectors(matrix.view(), 3).vector_rows == range(16, 19));
  CHECK(to_hybrid_vectors(matrix.view(), 4).vector_rows.empty());
  CHECK(to_hybrid_vectors(matrix.view(), 1).other_rows.empty());
}

TEST_CASE("what both parts store comes back in the order of the rows") {
  const csr_matrix matrix = test::make_csr(20, three_windows());
  for (const int nonzeros_per_vector : {1, 2, 3, 8}) {
    CAPTURE(nonzeros_per_vector);
    const csr_matrix back = to_csr(to_hybrid_vectors(matrix.view(), nonzeros_per_vector));
    CHECK(back.indptr == matrix.indptr);
    CHECK(back.indices == matrix.indices);
    CHECK(back.data == matrix.data);
  }
}

TEST_CASE("a window whose rows repeat a column is not stored as vectors") {
  rows full(16, {0, 1, 2});
  full[9] = {2, 0, 2};
  const csr_matrix matrix = test::make_csr(3, full);
  const hybrid_vectors stored = to_hybrid_vectors(matrix.view(), 2);
  CHECK(stored.vector_rows == range(0, 8));
  CHECK(stored.other_rows == range(8, 16));
  CHECK(stored.nnz() == matrix.nnz());
  CHECK(to_csr(stored).indices == matrix.indices);
}

TEST_CASE("windows without nonzeros are not stored as vectors") {
  const csr_matrix matrix = test::make_csr(3, rows(10));
  const hybrid_vectors stored = to_hybrid_vectors(matrix.view(), 1);
  CHECK(stored.vector_rows.empty());
  CHECK(stored.other_rows == range(0, 10));
  const csr_matrix nothing = test::make_csr(3, {});
  CHECK(to_csr(to_hybrid_vectors(nothing.view(), 2)).indptr == nothing.indptr);
}

TEST_CASE("nonzeros per vector are those that there can be") {
  const csr_matrix matrix = test::make_csr(1, {{0}});
  for (const int wrong : {0, 9, -1}) {
    CHECK(test::error_of([&] { to_hybrid_vectors(matrix.view(), wrong); }).argument() == "nonzeros_per_vector");
  }
}

}  // namespace warploom
