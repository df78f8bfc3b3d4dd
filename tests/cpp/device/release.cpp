// What is dropped while a graph is captured is kept until the capture has ended, and released once.
#include "device/release.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "allocation_failure.hpp"

namespace warploom {
namespace {

std::atomic<bool> capturing{false};
std::atomic<int> released{0};

void count(void* thing) { released += *static_cast<int*>(thing); }

// Captures are what the test says for one scope.
struct known_captures {
  known_captures() {
    released = 0;
    find_captures_by([]() noexcept { return capturing.load(); });
  }
  ~known_captures() {
    capturing = false;
    release_kept();
    find_captures_by(nullptr);
  }
};

TEST_CASE("what is dropped outside of captures is released at once") {
  const known_captures scope;
  int one = 1;
  release_after_work(0, &one, count);
  CHECK(released == 1);
  release_after_work(0, nullptr, count);
  release_kept();
  CHECK(released == 1);
}

TEST_CASE("what is dropped in a capture is released after it") {
  const known_captures scope;
  int ones[] = {1, 10, 100, 1000};
  capturing = true;
  for (int i = 0; i < 3; ++i) release_after_work(i % 2, &ones[i], count);
  release_kept();
  CHECK(released == 0);
  capturing = false;
  SUBCASE("with the next") {
    release_after_work(0, &ones[3], count);
    CHECK(released == 1111);
  }
  SUBCASE("when asked") {
    release_kept();
    CHECK(released == 111);
    release_kept();
    CHECK(released == 111);
  }
}

TEST_CASE("what is released may drop something else") {
  static int inner;
  const known_captures scope;
  inner = 5;
  int unused = 0;
  capturing = true;
  release_after_work(0, &unused, [](void*) { release_after_work(0, &inner, count); });
  CHECK(released == 0);
  capturing = false;
  release_kept();
  CHECK(released == 5);
}

TEST_CASE("without memory to note what is dropped, it is released at once") {
  const known_captures scope;
  std::vector<int> ones(100, 1);
  capturing = true;
  {
    const test::allocation_failure every(0, test::failing::all_from_then_on);
    for (int& one : ones) release_after_work(0, &one, count);
  }
  CHECK(released == 100);
  release_kept();
  CHECK(released == 100);
}

TEST_CASE("threads drop things at the same time, in and out of captures") {
  const known_captures scope;
  std::vector<int> ones(4000, 1);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = thread; i < 4000; i += 4) {
        capturing = i % 3 == 0;
        release_after_work(0, &ones[i], count);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  capturing = false;
  release_kept();
  CHECK(released == 4000);
}

}  // namespace
}  // namespace warploom
