// A value that is made when it is first asked for, and kept as long as the process runs.
#pragma once

#include <atomic>
#include <memory>

namespace warploom::python {

// Threads that ask at the same time may each make one, of which one is kept. None waits for another, as threads do at
// static variables: making it calls Python, and one that waits without letting go of Python can stop all others.
template <class T>
class made_once {
 public:
  constexpr made_once() = default;
  made_once(const made_once&) = delete;
  made_once& operator=(const made_once&) = delete;

  template <class Make>
  const T& get(Make make) {
    const T* const known = kept_.load(std::memory_order_acquire);
    return known != nullptr ? *known : first(make);
  }

 private:
  // Apart from `get`, which every product calls.
  template <class Make>
  [[gnu::noinline, gnu::cold]] const T& first(Make make) {
    auto fresh = std::make_unique<const T>(make());
    const T* known = nullptr;
    if (kept_.compare_exchange_strong(known, fresh.get())) return *fresh.release();
    return *known;  // another thread was quicker
  }

  std::atomic<const T*> kept_{nullptr};
};

}  // namespace warploom::python
