// Each nonzero's role in its vectors, as the threads of a GPU find it out, adds up to what the host counts.
#include "features/column_vectors.hpp"

#include <algorithm>
#include <random>

#include "support.hpp"
#include "warploom/vector_features.hpp"

namespace warploom {
namespace {

struct pattern {
  explicit pattern(std::int64_t columns) : num_cols(columns) {}

  std::int64_t num_cols;
  std::vector<std::int64_t> indptr{0};
  std::vector<std::int32_t> indices;

  std::int64_t num_rows() const { return static_cast<std::int64_t>(indptr.size()) - 1; }
  csr_pattern view() const {
    csr_pattern made;
    made.num_rows = num_rows();
    made.num_cols = num_cols;
    made.indptr = indptr.data();
    made.indices = indices.data();
    return made;
  }
};

// Rows repeat parts of the one before, and entries may repeat.
pattern random_pattern(std::mt19937& random, int num_rows, int num_cols) {
  const auto below = [&](int limit) { return static_cast<int>(random() % limit); };
  pattern made{num_cols};
  std::vector<std::int32_t> row;
  for (int i = 0; i < num_rows; ++i) {
    if (below(3) == 0) row.clear();
    if (below(4) != 0) row.resize(below(9) == 0 ? below(2 * num_cols) : below(6));
    for (auto& column : row) column = below(2) == 0 ? column : below(num_cols);
    std::sort(row.begin(), row.end());
    made.indices.insert(made.indices.end(), row.begin(), row.end());
    made.indptr.push_back(static_cast<std::int64_t>(made.indices.size()));
  }
  return made;
}

std::vector<double> by_roles(const pattern& matrix) {
  vector_counts of_8, of_16;
  std::vector<std::int64_t> in_8(matrix.num_rows() / 8 + 1), in_16(matrix.num_rows() / 16 + 1);
  for (std::int64_t row = 0; row < matrix.num_rows(); ++row) {
    for (std::int64_t j = matrix.indptr[row]; j < matrix.indptr[row + 1]; ++j) {
      const vector_role role = role_of_nonzero(matrix.indptr.data(), matrix.indices.data(), matrix.num_rows(), row, j);
      in_8[row / 8] += role.first_of_8;
      in_16[row / 16] += role.first_of_16;
      of_8.single += role.single_of_8;
      of_16.single += role.single_of_16;
    }
  }
  const auto add = [&](vector_counts& counts, const std::vector<std::int64_t>& vectors, std::int64_t height) {
    for (std::size_t window = 0; window < vectors.size(); ++window) {
      const auto at = [&](std::int64_t row) { return matrix.indptr[std::min(row, matrix.num_rows())]; };
      const auto first = static_cast<std::int64_t>(window) * height;
      const std::int64_t nonzeros = at(first + height) - at(first);
      counts.vectors += vectors[window];
      if (is_dense_window(vectors[window], nonzeros)) counts.nonzeros_of_dense += nonzeros;
    }
  };
  add(of_8, in_8, 8);
  add(of_16, in_16, 16);
  return column_vector_features(of_8, of_16, matrix.indptr.back());
}

}  // namespace

TEST_CASE("column_vector_features: a small matrix") {
  // Rows 0 to 8 share column 3, which is twice in row 1; column 5 is in row 0 alone.
  pattern matrix{9};
  for (int row = 0; row < 9; ++row) {
    if (row == 1) matrix.indices.push_back(3);
    matrix.indices.push_back(3);
    if (row == 0) matrix.indices.push_back(5);
    matrix.indptr.push_back(static_cast<std::int64_t>(matrix.indices.size()));
  }
  const std::vector<double> expected{3.0 / 11, 11.0 / 24, 2.0 / 3, 10.0 / 11, 2.0 / 11, 11.0 / 32, 0.5, 1.0};
  CHECK(column_vector_features(matrix.view()) == expected);
  CHECK(by_roles(matrix) == expected);
}

TEST_CASE("column_vector_features: roles of nonzeros add up") {
  std::mt19937 random(5);
  for (int repeat = 0; repeat < 300; ++repeat) {
    const int num_rows = 1 + static_cast<int>(random() % 70), num_cols = 1 + static_cast<int>(random() % 40);
    const pattern matrix = random_pattern(random, num_rows, num_cols);
    CHECK(by_roles(matrix) == column_vector_features(matrix.view()));
  }
}

TEST_CASE("column_vector_features: nothing to count") {
  CHECK(column_vector_features(pattern{4}.view()) == std::vector<double>(column_vector_feature_names().size(), 0.0));
}

}  // namespace warploom
