#include "planner/model_inputs.hpp"

#include <cmath>
#include <set>
#include <string>

#include "planner/example_matrix.hpp"
#include "support.hpp"

namespace warploom {

TEST_CASE("inputs of a matrix, as profiles were trained with") {
  // Computed by the implementation, in NumPy, with which the first profiles were trained; 24 columns of B.
  const std::vector<double> expected{6.599912842187128,
                                     7.651051691178929,
                                     9.172427508645482,
                                     -5.058893640963735,
                                     1.0,
                                     2.807354922057604,
                                     3.584962500721156,
                                     1.6773884136023849,
                                     0.31218982971097303,
                                     0.8743598369113023,
                                     -5.710364739348294,
                                     1.0588858745156675,
                                     0.6462271683767946,
                                     2.807354922057604,
                                     1.0,
                                     2.0,
                                     0.0,
                                     0.0,
                                     6.087462841250339,
                                     5.743391863325639,
                                     0.34987624675176426,
                                     2.813781191217037,
                                     0.9309911815828047,
                                     0.21486478586639707,
                                     0.38329936972647327,
                                     2.074000581443777,
                                     2.807354922057604,
                                     -0.25571664330260185,
                                     4.643856189774724,
                                     13.754991860009431,
                                     11.1705510353167,
                                     12.229119220658594,
                                     3.0,
                                     5.0,
                                     3.0,
                                     0.875,
                                     0.140625,
                                     0.75,
                                     0.0,
                                     0.75,
                                     0.0859375,
                                     0.5,
                                     0.25,
                                     0.375};
  const matrix_features features = test::example_features();
  const std::span<const model_input> inputs = model_inputs();
  REQUIRE(inputs.size() == expected.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CAPTURE(inputs[i].name);
    CHECK(std::abs(inputs[i].value(features, 24) - expected[i]) <= 1e-14 * std::abs(expected[i]));
  }
}

TEST_CASE("names of inputs are unique, and say which features they need") {
  std::set<std::string> names;
  for (const model_input& input : model_inputs()) {
    names.insert(input.name);
    CHECK(&find_model_input(input.name) == &input);
  }
  CHECK(names.size() == model_inputs().size());
  constexpr auto spmm = &matrix_features::spmm, column_vectors = &matrix_features::column_vectors;
  CHECK(!find_model_input("log_rows").needs(spmm));
  CHECK(!find_model_input("log_k").needs(spmm));
  CHECK(find_model_input("log_block_fill").needs(spmm));
  CHECK(!find_model_input("log_block_fill").needs(column_vectors));
  CHECK(find_model_input("single_vectors_16").needs(column_vectors));
  CHECK(!find_model_input("single_vectors_16").needs(spmm));
  CHECK(find_model_input("hidden_overlap").needs(&matrix_features::locality));
  CHECK(!find_model_input("hidden_overlap").needs(spmm));
  CHECK(!find_model_input("log_k").needs(&matrix_features::spmv));
  const error e = test::error_of([] { find_model_input("x"); });
  CHECK(e.kind() == error_kind::parameter);
  CHECK(e.argument() == "names");
  CHECK(test::error_of([] { find_feature("spmv_x"); }).argument() == "features");
  CHECK(test::error_of([] { find_feature("nnz"); }).argument() == "features");
}

TEST_CASE("inputs of a matrix without rows are finite") {
  const matrix_features empty{
      std::vector<double>(11, 0.0), std::vector<double>(24, 0.0), std::vector<double>(8, 0.0), {-1.0}};
  for (const model_input& input : model_inputs()) CHECK(std::isfinite(input.value(empty, 1)));
}

TEST_CASE("a preparation is a sum of terms, and a product has a roofline") {
  const auto term = [](std::size_t i) { return preparation_inputs()[i].formula(2e6, 3e6, 4e6, 5); };
  CHECK(term(0) == 1);
  CHECK(term(1) == 2);
  CHECK(term(2) == 3);
  CHECK(term(3) == 4);
  CHECK(term(4) == 10);
  CHECK(preparation_inputs()[4].formula(1e9, 0, 0, 1e9) == 1e3);
  CHECK(roofline_us(96, 200, 576, 24, 4) == 2.5111168);
  const size_features sizes = sizes_of(test::example_features());
  CHECK(sizes.rows == 96);
  CHECK(sizes.cols == 200);
  CHECK(sizes.nnz == 576);
  CHECK(sizes.longest_row == 11);
}

TEST_CASE("compression is undone") {
  for (const double value : {0.0, 1e-6, 0.01, 0.3, 2.0, 10.0}) {
    CHECK(std::abs(expand(compress(value)) - value) <= 1e-13 * value);
    CHECK(compress(value) <= value);
  }
  CHECK(compress(0.3) == doctest::Approx(0.13862943611198905).epsilon(1e-15));
  CHECK(expand(-0.1) == 0);
}

}  // namespace warploom
