// Validation names the first bad position, wherever it is and however many threads look.
#include "warploom/csr_view.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support.hpp"
#include "warploom/parallel.hpp"

namespace warploom {
namespace {

using test::error_of;

void check_malformed(const error& e, const std::string& argument, std::int64_t position) {
  CHECK(e.kind() == error_kind::invalid_matrix);
  CHECK(e.argument() == argument);
  CHECK(e.position() == position);
  CHECK(std::string(e.what()).find(argument + "[" + std::to_string(position) + "]") != std::string::npos);
}

void check_bad_indptr(const std::vector<std::int64_t>& indptr, std::int64_t position) {
  const auto num_rows = static_cast<std::int64_t>(indptr.size()) - 1;
  check_malformed(error_of([&] { validate_indptr(indptr.data(), num_rows); }), "indptr", position);
}

template <class Index>
void check_bad_indices(const std::vector<Index>& indices, std::int64_t num_cols, std::int64_t position) {
  const auto nnz = static_cast<std::int64_t>(indices.size());
  check_malformed(error_of([&] { validate_indices(indices.data(), nnz, num_cols); }), "indices", position);
}

}  // namespace

TEST_CASE("validate: legal matrices") {
  CHECK_NOTHROW(validate(test::make_csr(5, {{}, {4, 0, 4}, {}, {2}}).view()));
  CHECK_NOTHROW(validate(test::make_csr(5, {}).view()));
  CHECK_NOTHROW(validate(test::make_csr(0, {{}, {}}).view()));
}

TEST_CASE("validate: row offsets are checked before column indices") {
  csr_matrix matrix = test::make_csr(5, {{7}, {1}});
  check_malformed(error_of([&] { validate(matrix.view()); }), "indices", 0);
  matrix.indptr = {0, 2, 1};
  check_malformed(error_of([&] { validate(matrix.view()); }), "indptr", 2);
}

TEST_CASE("validate_indptr: the first bad position") {
  check_bad_indptr({1, 1, 2}, 0);
  check_bad_indptr({-1, 1, 2}, 0);
  check_bad_indptr({0, -1}, 1);
  check_bad_indptr({0, 3, 2, 5, 4}, 2);
  check_bad_indptr({0, 1, 2, 3, 2}, 4);
}

TEST_CASE("validate_indices: the first bad position") {
  check_bad_indices<std::int32_t>({0, 3, -1, 4}, 4, 2);
  check_bad_indices<std::int32_t>({0, 4, -1}, 4, 1);
  check_bad_indices<std::int32_t>({0}, 0, 0);
  check_bad_indices<std::int32_t>({std::numeric_limits<std::int32_t>::min()}, 4, 0);
}

TEST_CASE("validate_indices: wide indices are checked before they are narrowed") {
  check_bad_indices<std::int64_t>({3, (std::int64_t{1} << 32) + 3}, 4, 1);
  check_bad_indices<std::int64_t>({3, std::numeric_limits<std::int64_t>::min()}, 4, 1);
  check_bad_indices<std::uint64_t>({3, std::numeric_limits<std::uint64_t>::max()}, 4, 1);
}

TEST_CASE("validate: the first of many bad positions, in an array that several threads check") {
  const std::int64_t size = std::int64_t{1} << 21;
  set_num_threads(4);
  std::vector<std::int32_t> indices(size, 0);
  std::vector<std::int64_t> indptr(size + 1, 1);
  indptr[0] = 0;
  for (const std::int64_t first : {size - 1, size / 2 + 1, size / 3, std::int64_t{2}}) {
    indices[first] = 1;
    check_bad_indices(indices, 1, first);
    indptr[first] = 0;
    check_bad_indptr(indptr, first);
  }
  set_num_threads(0);
}

}  // namespace warploom
