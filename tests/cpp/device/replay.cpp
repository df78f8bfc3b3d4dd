// What comes again and again is recorded, and launched from then on; what does not is enqueued as it comes.
#include "device/replay.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <memory>

namespace warploom {
namespace {

struct numbered_call {
  int kind = 0;
  int number = 0;

  bool operator==(const numbered_call&) const = default;
};

bool is_alike(const numbered_call& a, const numbered_call& b) { return a.kind == b.kind; }

int recordings = 0;
int launches = 0;
bool can_record = true;

struct counted_work {
  static std::unique_ptr<counted_work> record(const std::function<void(CUstream_st*)>& enqueue) {
    ++recordings;
    enqueue(nullptr);
    return can_record ? std::make_unique<counted_work>() : nullptr;
  }
  void launch(CUstream_st*) const { ++launches; }
};

struct counting {
  counting() { recordings = launches = 0, can_record = true; }

  void call(int number, int times = 1, int kind = 0) {
    for (int i = 0; i < times; ++i) {
      work.enqueue({kind, number}, nullptr, [&](CUstream_st*) { ++enqueued; });
    }
  }

  replays<numbered_call, counted_work> work{8};
  int enqueued = 0;
};

TEST_CASE("a call is recorded once it has come so often, and launched afterwards") {
  counting calls;
  calls.call(1, 7);
  CHECK(recordings == 0);
  CHECK(calls.enqueued == 7);
  calls.call(1);
  CHECK(recordings == 1);
  CHECK(calls.work.num_recorded() == 1);
  CHECK(calls.enqueued == 8 + 1);  // recording calls it, too
  calls.call(1, 5);
  CHECK(launches == 5);
  CHECK(calls.enqueued == 9);
}

TEST_CASE("a few calls in turn are recorded, many are not") {
  counting few;
  for (int round = 0; round < 20; ++round) {
    for (int number = 0; number < 4; ++number) few.call(number);
  }
  CHECK(recordings == 4);
  CHECK(few.work.num_recorded() == 4);
  CHECK(launches == 4 * 12);
  counting many;
  for (int round = 0; round < 20; ++round) {
    for (int number = 0; number < 5; ++number) many.call(number);
  }
  CHECK(recordings == 0);
  CHECK(many.enqueued == 100);
}

TEST_CASE("a call takes the place of the one that came least recently") {
  counting calls;
  for (int number = 0; number < 4; ++number) calls.call(number, 100);
  calls.call(0);
  calls.call(4);  // in place of 1
  launches = 0;
  for (const int number : {0, 2, 3}) calls.call(number);
  CHECK(launches == 3);
  calls.call(1);
  CHECK(launches == 3);
}

TEST_CASE("calls that are not alike are forgotten") {
  counting calls;
  calls.call(1, 100);
  calls.call(1, 1, /*kind=*/1);
  CHECK(calls.work.num_recorded() == 0);
  launches = 0;
  calls.call(1, 7);
  CHECK(launches == 0);
  calls.call(1, 2);
  CHECK(launches == 1);
  calls.work.forget();
  CHECK(calls.work.num_recorded() == 0);
}

TEST_CASE("recording that was not worth it becomes rare") {
  counting calls;
  for (int number = 0; number < 1000; ++number) calls.call(number, 10);
  CHECK(recordings < 10);
}

TEST_CASE("what cannot be recorded is not tried again at once") {
  counting calls;
  can_record = false;
  calls.call(1, 1000);
  CHECK(recordings == 1);
  CHECK(calls.enqueued == 1001);
  CHECK(calls.work.num_recorded() == 0);
}

}  // namespace
}  // namespace warploom
