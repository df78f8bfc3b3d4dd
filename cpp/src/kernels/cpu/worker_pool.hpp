// Threads that wait for the next product. Starting a thread takes as long as a product with some 100,000 nonzeros;
// waking one that waits takes a tenth of that.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>

namespace warploom {

inline void pause_processor() {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_ia32_pause();
#endif
}

// Waits until `value` differs from `seen`: first awake, then asleep, until somebody notifies.
template <class Value>
void wait_for_change(const std::atomic<Value>& value, Value seen, std::chrono::microseconds patience) {
  const auto start = std::chrono::steady_clock::now();
  for (int turn = 0; value.load(std::memory_order_acquire) == seen; ++turn) {
    pause_processor();
    if (turn % 16 == 15 && std::chrono::steady_clock::now() - start > patience) {
      value.wait(seen, std::memory_order_acquire);
    }
  }
}

// Calls `work` on the calling thread, and on up to `helpers` others at the same time. Returns when all calls have
// returned. A helper that has not started by the time that the caller's own call returns is not waited for: `work` is
// to take its share from what is left, and to throw nothing.
//
// Where another thread of the process has the helpers, or the system has no more threads, fewer take part. A forked
// child starts helpers of its own.
void work_together(int helpers, const std::function<void()>& work);

}  // namespace warploom
