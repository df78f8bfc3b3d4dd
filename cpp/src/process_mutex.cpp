#include "warploom/process_mutex.hpp"

#include <unistd.h>

namespace warploom {

struct process_mutex::owned {
  pid_t process = getpid();
  std::mutex mutex{};
};

process_mutex::process_mutex() : current_(new owned) {}

process_mutex::~process_mutex() { delete current_.load(); }

std::mutex& process_mutex::of_this_process() {
  owned* known = current_.load();
  if (known->process == getpid()) return known->mutex;
  // The first use in a forked child. What the parent had may be locked, and a locked mutex must not be destroyed: its
  // few bytes are left behind.
  auto fresh = std::make_unique<owned>();
  if (current_.compare_exchange_strong(known, fresh.get())) return fresh.release()->mutex;
  return known->mutex;  // another thread of the child was quicker
}

}  // namespace warploom
