#include "kernels/cpu/worker_pool.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

namespace warploom {
namespace {

// How long a helper looks for the next job before it sleeps. Products in a loop follow one another faster than that.
constexpr std::chrono::microseconds patience{20};

// One for each process, never destroyed: its helpers wait in it until the process ends.
class worker_pool {
 public:
  const pid_t process = getpid();

  bool try_run(int helpers, const std::function<void()>& work) {
    const std::unique_lock<std::mutex> lock(one_job_, std::try_to_lock);
    if (!lock) return false;
    start_helpers(helpers);
    work_ = &work;
    seats_.store(static_cast<std::uint64_t>(helpers), std::memory_order_release);
    job_.fetch_add(1, std::memory_order_release);
    job_.notify_all();
    work();
    // Nobody sits down any more; those who sit are waited for.
    std::uint64_t seats = seats_.fetch_and(~free_seats, std::memory_order_acq_rel) & ~free_seats;
    while (seats != 0) {
      wait_for_change(seats_, seats, patience);
      seats = seats_.load(std::memory_order_acquire);
    }
    return true;
  }

 private:
  // seats_ holds the free seats in its lower half, and those that are taken in its upper half.
  static constexpr std::uint64_t free_seats = 0xffffffffu;
  static constexpr std::uint64_t taken_seat = std::uint64_t{1} << 32;

  void start_helpers(int count) {
    try {
      for (; started_ < count; ++started_) {
        std::thread([this, seen = job_.load()] { help(seen); }).detach();
      }
    } catch (const std::system_error&) {
      // The system has no more threads: those there are do the work.
    } catch (const std::bad_alloc&) {
    }
  }

  [[noreturn]] void help(std::uint32_t seen) {
    for (;;) {
      wait_for_change(job_, seen, patience);
      seen = job_.load(std::memory_order_acquire);
      if (!sit_down()) continue;
      (*work_)();
      seats_.fetch_sub(taken_seat, std::memory_order_acq_rel);
      seats_.notify_all();
    }
  }

  bool sit_down() {
    std::uint64_t seats = seats_.load(std::memory_order_acquire);
    while ((seats & free_seats) != 0) {
      if (seats_.compare_exchange_weak(seats, seats - 1 + taken_seat, std::memory_order_acq_rel)) return true;
    }
    return false;
  }

  std::mutex one_job_;
  int started_ = 0;
  const std::function<void()>* work_ = nullptr;
  std::atomic<std::uint32_t> job_{0};
  std::atomic<std::uint64_t> seats_{0};
};

std::atomic<worker_pool*> current{nullptr};

// In a forked child the pool of the parent has no threads, and its mutex may be locked: it is left behind.
worker_pool& pool_of_this_process() {
  worker_pool* known = current.load();
  if (known && known->process == getpid()) return *known;
  auto fresh = std::make_unique<worker_pool>();
  if (current.compare_exchange_strong(known, fresh.get())) return *fresh.release();
  return *known;  // another thread was quicker
}

}  // namespace

void work_together(int helpers, const std::function<void()>& work) {
  if (helpers < 1 || !pool_of_this_process().try_run(helpers, work)) work();
}

}  // namespace warploom
