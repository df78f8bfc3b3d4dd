#include "warploom/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#ifdef __linux__
#include <sched.h>
#endif

namespace warploom {
namespace {

std::atomic<int> requested_threads{0};
thread_local int limit_of_this_thread = std::numeric_limits<int>::max();

int default_num_threads() {
  if (const char* text = std::getenv("WARPLOOM_NUM_THREADS")) {
    const int count = std::atoi(text);
    if (count > 0) return count;
  }
#ifdef __linux__
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
#endif
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace

int num_threads() {
  static const int from_environment = default_num_threads();
  const int requested = requested_threads.load();
  return std::min(limit_of_this_thread, requested > 0 ? requested : from_environment);
}

void set_num_threads(int count) { requested_threads = std::max(0, count); }

fewer_threads::fewer_threads(int most) : outer_(limit_of_this_thread) {
  limit_of_this_thread = std::min(outer_, std::max(1, most));
}
fewer_threads::~fewer_threads() { limit_of_this_thread = outer_; }

void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (begin >= end) return;
  grain = std::max<std::int64_t>(1, grain);
  const std::int64_t max_ranges = (end - begin + grain - 1) / grain;
  const int threads = static_cast<int>(std::min<std::int64_t>(num_threads(), max_ranges));
  if (threads == 1) {
    body(begin, end);
    return;
  }

  // Several ranges for each thread, which balances rows of different length.
  const std::int64_t ranges = std::min<std::int64_t>(max_ranges, 8LL * threads);
  const std::int64_t step = std::max(grain, (end - begin + ranges - 1) / ranges);
  std::atomic<std::int64_t> next{begin};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto work = [&] {
    try {
      for (std::int64_t first = next.fetch_add(step); first < end; first = next.fetch_add(step)) {
        body(first, std::min(end, first + step));
      }
    } catch (...) {
      const std::lock_guard<std::mutex> lock(failure_mutex);
      if (!failure) failure = std::current_exception();
      next = end;
    }
  };
  std::vector<std::thread> workers;
  try {
    workers.reserve(threads - 1);
    for (int i = 1; i < threads; ++i) workers.emplace_back(work);
  } catch (const std::exception&) {
    // The system has no more threads (std::system_error), or no memory for one (std::bad_alloc): those there are do the
    // work. Nothing may leave this block, since a thread that was started has to be joined.
  }
  work();
  for (auto& worker : workers) worker.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace warploom
