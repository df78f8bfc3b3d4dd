// A search ends between steps when it is no longer wanted, on the thread that asked for it alone.
#include "warploom/interruption.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "support.hpp"
#include "warploom/permutation.hpp"

namespace warploom {

TEST_CASE("check_interruption: the innermost scope decides, and none outside of all") {
  std::string calls;
  check_interruption();
  {
    const interruption_scope outer([&] { calls += "o"; });
    check_interruption();
    {
      const interruption_scope inner([&] { calls += "i"; });
      check_interruption();
    }
    check_interruption();
  }
  check_interruption();
  CHECK(calls == "oio");
}

TEST_CASE("permutations that search may be ended at any step") {
  std::vector<std::vector<std::int32_t>> rows;
  for (std::int32_t i = 0; i < 200; ++i) rows.push_back({i, (7 * i) % 200, (31 * i + 5) % 200});
  const csr_matrix matrix = test::make_csr(200, rows);
  const geometry shape{2, 4, 1};
  for (const permutation_algorithm& algorithm : permutation_algorithms()) {
    if (!algorithm.searches) continue;
    CAPTURE(algorithm.name);
    int steps = 0;
    {
      const interruption_scope counting([&] { ++steps; });
      algorithm.compute(matrix.view(), shape);
    }
    CHECK(steps >= 190);
    int left = 100;
    const interruption_scope ending([&] {
      if (--left == 0) throw std::runtime_error("no longer wanted");
    });
    CHECK_THROWS_WITH_AS(algorithm.compute(matrix.view(), shape), "no longer wanted", std::runtime_error);
  }
}

TEST_CASE("orders for locality may be ended") {
  std::vector<std::vector<std::int32_t>> rows;
  for (std::int32_t i = 0; i < 20000; ++i) rows.push_back({i, (7 * i) % 20000, (31 * i + 5) % 20000});
  const csr_matrix matrix = test::make_csr(20000, rows);
  for (const permutation_algorithm& algorithm : permutation_algorithms()) {
    if (algorithm.family != permutation_family::locality) continue;
    CAPTURE(algorithm.name);
    const interruption_scope ending([] { throw std::runtime_error("no longer wanted"); });
    CHECK_THROWS_WITH_AS(algorithm.compute(matrix.view(), {}), "no longer wanted", std::runtime_error);
  }
}

}  // namespace warploom
