#include "warploom/locality.hpp"

#include <algorithm>
#include <string>

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
  CHECK(value_of(matrix, "hidden_overlap") == doctest::Approx(1));    // twice one of the one other column
}

TEST_CASE("locality_features: matrices without anything have features of 0") {
  for (const auto& matrix : {test::make_csr(0, {}), test::make_csr(5, {}), test::make_csr(5, {{}, {}})}) {
    const auto values = locality_features(matrix.view());
    CHECK(values.size() == locality_feature_names().size());
    CHECK(std::all_of(values.begin(), values.end(), [](double value) { return value == 0; }));
  }
}

}  // namespace
}  // namespace warploom
