// What a permutation is, how it is refused, and that every algorithm computes one.
#include "warploom/permutation.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "support.hpp"

namespace warploom {
namespace {

using test::error_of;

void check_refused(const row_permutation& perm, std::int64_t num_rows, std::int64_t position) {
  const error e = error_of([&] { validate_permutation(perm, num_rows); });
  CHECK(e.kind() == error_kind::parameter);
  CHECK(e.argument() == "perm");
  CHECK(e.position() == position);
}

}  // namespace

TEST_CASE("validate_permutation: legal ones") {
  CHECK_NOTHROW(validate_permutation({}, 0));
  CHECK_NOTHROW(validate_permutation(row_permutation{0}, 1));
  CHECK_NOTHROW(validate_permutation(row_permutation{2, 0, 3, 1}, 4));
}

TEST_CASE("validate_permutation: the first bad position") {
  check_refused({0, 1}, 3, -1);
  check_refused({0, 1, 2}, 2, -1);
  check_refused({0, -1, 9}, 3, 1);
  check_refused({0, 1, 3}, 3, 2);
  check_refused({2, 0, 2, 0}, 4, 2);
}

TEST_CASE("invert: there and back is the identity") {
  const row_permutation perm{2, 0, 3, 1};
  const row_permutation inverse = invert(perm);
  CHECK(inverse == row_permutation{1, 3, 0, 2});
  CHECK(invert(inverse) == perm);
  CHECK(invert({}).empty());
}

TEST_CASE("permutation_algorithms: each is found by its name and computes a permutation") {
  const csr_matrix matrix = test::make_csr(70, {{}, {0, 69}, {33, 1, 1}, {}, {5}, {64, 65, 66, 67}, {0, 69}, {}});
  for (const permutation_algorithm& algorithm : permutation_algorithms()) {
    CAPTURE(algorithm.name);
    CHECK(&find_permutation(algorithm.name) == &algorithm);
    for (const int warps : {1, 3, 32}) {
      geometry shape;
      shape.warps = warps;
      CHECK_NOTHROW(validate_permutation(algorithm.compute(matrix.view(), shape), matrix.num_rows));
      CHECK(algorithm.compute(test::make_csr(5, {}).view(), shape).empty());
    }
  }
}

TEST_CASE("find_permutation: an unknown name is answered with the known ones") {
  const error e = error_of([] { find_permutation("no-such"); });
  CHECK(e.kind() == error_kind::parameter);
  CHECK(std::string(e.what()).find("hybrid-2.1") != std::string::npos);
}

TEST_CASE(
    "permute_symmetrically: rows and columns get their new numbers, columns ascend, and each entry says its source") {
  const csr_matrix matrix = test::make_csr(3, {{2, 0}, {1}, {}});
  const symmetric_permutation permuted = permute_symmetrically(matrix.view(), row_permutation{1, 2, 0});
  CHECK(permuted.indptr == std::vector<std::int64_t>{0, 1, 1, 3});
  CHECK(permuted.indices == std::vector<std::int32_t>{0, 1, 2});
  CHECK(permuted.source == std::vector<std::int64_t>{2, 0, 1});
}

TEST_CASE("permute_symmetrically: what is not square or no permutation is refused") {
  const csr_matrix wide = test::make_csr(4, {{3}, {1}, {}});
  CHECK(error_of([&] { permute_symmetrically(wide.view(), row_permutation{0, 1, 2}); }).kind() == error_kind::shape);
  const csr_matrix square = test::make_csr(2, {{0}, {1}});
  CHECK(error_of([&] { permute_symmetrically(square.view(), row_permutation{1, 1}); }).argument() == "perm");
}

TEST_CASE("permutation_family: each has a name of its own") {
  using enum permutation_family;
  std::vector<std::string> names;
  for (const auto family : {none, load, cache_lines, load_and_cache_lines, locality}) {
    CHECK(std::count(names.begin(), names.end(), name_of(family)) == 0);
    names.emplace_back(name_of(family));
  }
}

}  // namespace warploom
