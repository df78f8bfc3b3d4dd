// Long computations ask between steps, on the thread that called them, whether they are still wanted.
#pragma once

#include <functional>
#include <utility>

namespace warploom {

// While it lives, `check_interruption` calls `check` on this thread, which throws to end the computation.
class interruption_scope {
 public:
  explicit interruption_scope(std::function<void()> check)
      : outer_(std::exchange(current_, &check_)), check_(std::move(check)) {}
  ~interruption_scope() { current_ = outer_; }
  interruption_scope(const interruption_scope&) = delete;
  interruption_scope& operator=(const interruption_scope&) = delete;

 private:
  friend void check_interruption();
  static inline thread_local const std::function<void()>* current_ = nullptr;

  const std::function<void()>* outer_;
  std::function<void()> check_;
};

inline void check_interruption() {
  if (interruption_scope::current_ != nullptr) (*interruption_scope::current_)();
}

}  // namespace warploom
