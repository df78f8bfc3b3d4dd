// A mutex that a forked child finds open. The thread that held it in the parent does not exist in the child, where an
// ordinary mutex would stay locked for ever.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

namespace warploom {

class process_mutex {
 public:
  process_mutex();
  ~process_mutex();
  process_mutex(const process_mutex&) = delete;
  process_mutex& operator=(const process_mutex&) = delete;

  void lock() { of_this_process().lock(); }
  bool try_lock() { return of_this_process().try_lock(); }
  void unlock() { of_this_process().unlock(); }

 private:
  struct owned;

  std::mutex& of_this_process();

  std::atomic<owned*> current_;
};

}  // namespace warploom
