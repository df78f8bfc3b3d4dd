// Work is done whatever helpers there are, by several callers at once and in a forked child, and helpers do take part.
#include "kernels/cpu/worker_pool.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "kernels/cpu/work_ranges.hpp"

namespace warploom {
namespace {

// How often each of `count` items is visited.
std::vector<int> visits(std::int64_t count, int threads) {
  std::vector<std::atomic<int>> seen(count);
  for_each_together(count, threads, [&](std::int64_t i) { seen[i].fetch_add(1); });
  return {seen.begin(), seen.end()};
}

}  // namespace

TEST_CASE("work together: every item once, whatever threads there are") {
  for (const int threads : {1, 2, 3, 8}) {
    for (const std::int64_t count : {0, 1, 2, 17, 1000}) {
      CAPTURE(threads);
      CAPTURE(count);
      for (int repeat = 0; repeat < 20; ++repeat) CHECK(visits(count, threads) == std::vector<int>(count, 1));
    }
  }
}

TEST_CASE("work together: a helper takes part") {
  std::atomic<int> here{0};
  work_together(1, [&] {
    here.fetch_add(1);
    while (here.load() < 2) std::this_thread::yield();
  });
  CHECK(here == 2);
}

TEST_CASE("work together: several callers at once, more often than helpers can follow") {
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 500; ++repeat) {
        if (visits(9, 3) != std::vector<int>(9, 1)) wrong.fetch_add(1);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("work together: in a forked child, which has none of its parent's threads") {
  CHECK(visits(100, 3) == std::vector<int>(100, 1));
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(visits(100, 3) == std::vector<int>(100, 1) ? 0 : 1);
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

}  // namespace warploom
