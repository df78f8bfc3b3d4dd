#include "warploom/locality.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "support.hpp"

namespace warploom {
namespace {

double value_of(const csr_matrix& matrix, const std::string& name) {
  const auto names = locality_feature_names();
  const auto at = std::find(names.begin(), names.end(), name) - names.begin();
  REQUIRE(at < static_cast<std::ptrdiff_t>(names.size()));
  return locality_features(matrix.view()).at(at);
}

TEST_CASE("locality_features: counts in a small matrix") {
  const csr_matrix matrix = test::make_csr(8, {{0, 1}, {0, 1, 7}, {}, {4}});
  CHECK(value_of(matrix, "columns_per_nonzero_32") == doctest::Approx(4.0 / 6));
  CHECK(value_of(matrix, "sectors_per_nonzero_32") == doctest::Approx(2.0 / 6));
  CHECK(value_of(matrix, "first_uses") == doctest::Approx(2.0 / 6));
  CHECK(value_of(matrix, "reused_within_1024") == doctest::Approx(4.0 / 6));
  CHECK(value_of(matrix, "adjacent_overlap") == doctest::Approx(1));  // the two columns of the first row
  CHECK(value_of(matrix, "hidden_overlap") == -1);                    // there are too few nonzeros
}

TEST_CASE("locality_features: matrices without anything have features of 0") {
  for (const auto& matrix : {test::make_csr(0, {}), test::make_csr(5, {}), test::make_csr(5, {{}, {}})}) {
    const auto values = locality_features(matrix.view());
    CHECK(values.size() == locality_feature_names().size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::string name = locality_feature_names()[i];
      CHECK(values[i] == (name == "hidden_overlap" ? not_measured : 0));
    }
  }
}

TEST_CASE("hidden_overlap: columns in common but for the one that leads from row to row") {
  const auto overlap = [](std::int64_t columns, const std::vector<std::vector<std::int32_t>>& rows) {
    return hidden_overlap(test::make_csr(columns, rows).view(), 0);
  };
  // Column 0 leads from 0, 1 to 0, 1, 7, and so does column 1.
  CHECK(overlap(8, {{0, 1}, {0, 1, 7}, {}, {4}}) == 1);
  CHECK(overlap(8, {{0, 1, 2}, {}, {0, 3, 4}, {5, 2}}) == 0);
  // Columns 0 and 2 lead from the first row to the second one: of two others, one is in common each time.
  CHECK(overlap(8, {{0, 1, 2}, {2, 5, 0}}) == 0.5);
  // Entries that repeat are one column. Column 3 leads to the row that it is in, and column 4 to the last one.
  CHECK(overlap(8, {{3, 3, 4}, {5}, {3, 4, 4, 4}}) == 1);
  CHECK(overlap(8, {{3, 3, 3}}) == 0);
  CHECK(overlap(8, {{}, {}}) == not_measured);
  CHECK(hidden_overlap(test::make_csr(8, {{0, 1}}).view()) == not_measured);
}

TEST_CASE("hidden_overlap: of long rows, what is near the common column counts") {
  // Two rows of 1,000 columns have every second one in common; 255 of the 256 nonzeros around a column are compared.
  std::vector<std::vector<std::int32_t>> rows(2);
  for (std::int32_t column = 0; column < 1000; ++column) {
    rows[0].push_back(column);
    rows[1].push_back(column % 2 == 0 ? column : 1000 + column);
  }
  const double found = hidden_overlap(test::make_csr(2000, rows).view(), 0);
  CHECK(found > 0.45);
  CHECK(found < 0.55);
  auto scattered = rows;
  for (std::size_t i = 0; i < 1000; ++i) scattered[1][i] = rows[1][i * 381 % 1000];  // others are near
  CHECK(hidden_overlap(test::make_csr(2000, scattered).view(), 0) < 0.2);
}

}  // namespace
}  // namespace warploom
