// Counts in cells, for every number of threads; Python compares them with counts one by one.
#include "warploom/pattern_image.hpp"

#include <cstdint>
#include <vector>

#include "support.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

TEST_CASE("count_in_cells: each nonzero in its cell, with rows in any order") {
  const csr_matrix A = test::make_csr(5, {{0, 4}, {}, {1, 1, 3}, {2}});
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    CHECK(count_in_cells(A.view(), {}, 4, 5) ==
          std::vector<std::int64_t>{1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 0, 0, 1, 0, 0});
    CHECK(count_in_cells(A.view(), {}, 2, 2) == std::vector<std::int64_t>{1, 1, 3, 1});
    CHECK(count_in_cells(A.view(), std::vector<std::int32_t>{2, 3, 0, 1}, 2, 2) ==
          std::vector<std::int64_t>{3, 1, 1, 1});
    CHECK(count_in_cells(A.view(), {}, 1, 1) == std::vector<std::int64_t>{6});
    CHECK(count_in_cells(A.view(), {}, 0, 5).empty());
  }
  set_num_threads(0);
}

TEST_CASE("count_in_cells: no more cells than rows and columns") {
  const csr_matrix A = test::make_csr(5, {{0, 4}, {1}});
  CHECK(test::error_of([&] { count_in_cells(A.view(), {}, 3, 1); }).argument() == "height");
  CHECK(test::error_of([&] { count_in_cells(A.view(), {}, 2, 6); }).argument() == "width");
  CHECK(test::error_of([&] { count_in_cells(A.view(), {}, -1, 1); }).kind() == error_kind::parameter);
}

}  // namespace warploom
