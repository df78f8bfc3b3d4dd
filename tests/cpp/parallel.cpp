// Ranges cover a loop once, are as long as was asked, and an exception in one reaches the caller, whatever threads
// there are.
#include "warploom/parallel.hpp"

#include <doctest/doctest.h>

#ifdef __GLIBC__
#include <pthread.h>
#endif

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "allocation_failure.hpp"

namespace warploom {
namespace {

// Sets the number of threads for one scope.
struct threads_for_scope {
  explicit threads_for_scope(int count) { set_num_threads(count); }
  ~threads_for_scope() { set_num_threads(0); }
};

using ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;

ranges ranges_of(std::int64_t begin, std::int64_t end, std::int64_t grain) {
  ranges seen;
  std::mutex mutex;
  parallel_for(begin, end, grain, [&](std::int64_t first, std::int64_t last) {
    const std::lock_guard<std::mutex> lock(mutex);
    seen.emplace_back(first, last);
  });
  return seen;
}

}  // namespace

TEST_CASE("a limit holds for its thread, while it lives, and within an outer one") {
  const threads_for_scope scope(8);
  {
    const fewer_threads limit(3);
    CHECK(num_threads() == 3);
    CHECK(ranges_of(0, 1000, 1).size() <= 8 * 3);
    {
      const fewer_threads wider(5);
      CHECK(num_threads() == 3);
      const fewer_threads none(0);
      CHECK(num_threads() == 1);
      CHECK(ranges_of(0, 1000, 1) == ranges{{0, 1000}});
    }
    CHECK(num_threads() == 3);
    int elsewhere = 0;
    std::thread([&] { elsewhere = num_threads(); }).join();
    CHECK(elsewhere == 8);
  }
  CHECK(num_threads() == 8);
}

TEST_CASE("parallel_for: every index once, in ranges of at least the grain") {
  for (const int threads : {1, 2, 3, 8}) {
    const threads_for_scope scope(threads);
    for (const std::int64_t begin : {0, 5}) {
      for (const std::int64_t size : {1, 2, 9, 63, 64, 65, 1000}) {
        for (const std::int64_t grain : {0, 1, 4, 7, 64, 2000}) {
          CAPTURE(threads);
          CAPTURE(begin);
          CAPTURE(size);
          CAPTURE(grain);
          std::vector<int> visits(size, 0);
          for (const auto& [first, last] : ranges_of(begin, begin + size, grain)) {
            REQUIRE(begin <= first);
            REQUIRE(first < last);
            REQUIRE(last <= begin + size);
            CHECK((last - first >= grain || last == begin + size));
            for (std::int64_t i = first; i < last; ++i) ++visits[i - begin];
          }
          CHECK(visits == std::vector<int>(size, 1));
        }
      }
    }
  }
}

TEST_CASE("parallel_for: nothing to do") {
  CHECK(ranges_of(3, 3, 1).empty());
  CHECK(ranges_of(3, 2, 1).empty());
}

TEST_CASE("parallel_for: less than the grain stays on the calling thread") {
  const threads_for_scope scope(4);
  std::thread::id worker;
  parallel_for(0, 100, 100, [&](std::int64_t, std::int64_t) { worker = std::this_thread::get_id(); });
  CHECK(worker == std::this_thread::get_id());
}

TEST_CASE("parallel_for: an exception reaches the caller and ends the loop") {
  for (const int threads : {1, 4}) {
    const threads_for_scope scope(threads);
    for (const std::int64_t bad : {0, 500, 999}) {
      const auto run = [&] {
        parallel_for(0, 1000, 1, [&](std::int64_t first, std::int64_t last) {
          if (first <= bad && bad < last) throw std::out_of_range("bad");
        });
      };
      CHECK_THROWS_WITH_AS(run(), "bad", std::out_of_range);
    }
    std::atomic<int> thrown{0};
    const auto throw_everywhere = [&] {
      parallel_for(0, 1000, 1, [&](std::int64_t, std::int64_t) {
        ++thrown;
        throw std::runtime_error("all");
      });
    };
    CHECK_THROWS_WITH_AS(throw_everywhere(), "all", std::runtime_error);
    CHECK(thrown <= threads);
  }
}

TEST_CASE("parallel_for: loops may nest") {
  const threads_for_scope scope(3);
  std::atomic<int> visits{0};
  parallel_for(0, 10, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      parallel_for(0, 10, 1, [&](std::int64_t begin, std::int64_t end) { visits += static_cast<int>(end - begin); });
    }
  });
  CHECK(visits == 100);
}

TEST_CASE("parallel_for: fewer threads do the work where memory for one of them is refused") {
  const threads_for_scope scope(4);
  for (int countdown = 0; countdown < 12; ++countdown) {
    CAPTURE(countdown);
    std::atomic<int> visits{0};
    const std::function<void(std::int64_t, std::int64_t)> body = [&](std::int64_t begin, std::int64_t end) {
      visits += static_cast<int>(end - begin);
    };
    bool happened = false;
    {
      const test::allocation_failure failure(countdown);
      parallel_for(0, 1000, 1, body);
      happened = failure.happened();
    }
    CHECK(visits == 1000);
    if (countdown < 3) CHECK(happened);  // room for the threads, and each of them, is allocated
  }
}

#ifdef __GLIBC__
TEST_CASE("parallel_for: the calling thread does the work where the system starts no other") {
  pthread_attr_t usual;
  REQUIRE(pthread_getattr_default_np(&usual) == 0);
  pthread_attr_t too_large;  // a stack that no address space holds
  REQUIRE(pthread_attr_init(&too_large) == 0);
  REQUIRE(pthread_attr_setstacksize(&too_large, std::size_t{1} << 60) == 0);
  REQUIRE(pthread_setattr_default_np(&too_large) == 0);
  const threads_for_scope scope(4);
  bool others = false;
  std::int64_t visits = 0;
  parallel_for(0, 1000, 1, [&, caller = std::this_thread::get_id()](std::int64_t begin, std::int64_t end) {
    others |= std::this_thread::get_id() != caller;
    visits += end - begin;
  });
  CHECK(pthread_setattr_default_np(&usual) == 0);
  pthread_attr_destroy(&usual);
  pthread_attr_destroy(&too_large);
  CHECK(!others);
  CHECK(visits == 1000);
}
#endif

TEST_CASE("set_num_threads: 0 and less return to the default") {
  const int by_default = num_threads();
  CHECK(by_default >= 1);
  set_num_threads(by_default + 2);
  CHECK(num_threads() == by_default + 2);
  set_num_threads(-1);
  CHECK(num_threads() == by_default);
}

}  // namespace warploom
