#include "planner/value_updates.hpp"

#include <cstdint>
#include <new>
#include <vector>

#include "allocation_failure.hpp"
#include "planner/positions.hpp"
#include "planner/problems.hpp"
#include "warploom/error.hpp"
#include "warploom/planner.hpp"

namespace warploom {
namespace {

using test::small_matrix;

// What the map has once a place was read in all rounds.
template <class Word>
std::uint32_t read_all(Word first, Word second) {
  const std::uint32_t found = read_position<Word>(first, 0, 0);
  return position_rounds<Word> == 1 ? found : read_position<Word>(second, 1, found);
}

template <class Word>
void check_words(const std::vector<std::uint32_t>& positions) {
  for (const std::uint32_t j : positions) {
    CHECK(read_all(position_word<Word>(j, 0), position_word<Word>(j, 1)) == j + 1);
  }
  // Places without a value: zeros, and distances of compressed-sell.
  for (const std::uint32_t distance : {0u, 1u, 255u, 65535u}) {
    CHECK(read_all(static_cast<Word>(distance), static_cast<Word>(distance)) == 0);
  }
  if (sizeof(Word) > 2) CHECK(read_all(static_cast<Word>(0x7fffffffu), static_cast<Word>(0x7fffffffu)) == 0);
}

TEST_CASE("positions are read from words of every size") {
  std::vector<std::uint32_t> positions{0x7ffffffeu, 0x7fff0000u, 0x7ffeffffu, 0x40000000u};
  for (std::uint32_t j = 0; j < 200'000; ++j) positions.push_back(j);
  check_words<std::uint16_t>(positions);
  check_words<std::uint32_t>(positions);
  check_words<std::uint64_t>(positions);
}

TEST_CASE("a plan takes new values if the problem says so") {
  const small_matrix A;
  problem given = A.spmv();
  plan_options options;
  options.select = "spmv/none/ell/vector";
  const std::vector<float> values(given.nnz(), 3.0f), x(given.num_cols(), 1.0f);
  std::vector<float> y(given.num_rows());
  const dense_view B{const_cast<float*>(x.data()), given.num_cols(), 1, given.num_cols()};
  const dense_view C{y.data(), given.num_rows(), 1, given.num_rows()};
  planner planning({});
  const auto fixed = planning.make(given, options);
  CHECK(!fixed->updatable());
  CHECK_THROWS_AS(fixed->update_values(values.data()), error);
  CHECK_THROWS_AS(fixed->update_values_on_host(values.data()), error);

  given.updatable = true;
  const auto planned = planning.make(given, options);
  CHECK(planned->updatable());
  CHECK(planned->bytes() == fixed->bytes() + 90 * 7 * sizeof(std::uint32_t));  // places
  planned->update_values(values.data());
  planned->multiply(B, C);
  for (std::int64_t row = 0; row < given.num_rows(); ++row) {
    CHECK(y[row] == 3.0f * static_cast<float>(given.matrix().row_length(row)));
  }
}

TEST_CASE("memory that does not suffice for updates is an error that says so") {
  const small_matrix A;
  problem given = A.spmv();
  given.updatable = true;
  int failures = 0;
  for (int countdown = 0; countdown < 30; ++countdown) {
    const auto prepared = prepare_candidate(given, parse_candidate("spmv/none/ell/vector"));
    try {
      const test::allocation_failure failure(countdown);
      prepared->make_updatable(given, {});
    } catch (const error& caught) {
      CHECK(caught.kind() == error_kind::out_of_memory);
      CHECK(caught.argument() == "updatable");
      ++failures;
    }
  }
  CHECK(failures > 3);
}

}  // namespace
}  // namespace warploom
