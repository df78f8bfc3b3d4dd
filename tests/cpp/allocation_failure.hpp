// Makes allocations and thread creation fail, to see what is left behind.
#pragma once

#include <cstdint>

namespace warploom::test {

enum class failing {
  one,              // an allocation of the thread that asked for failures
  one_of_all,       // an allocation of any thread
  all_from_then_on  // that allocation and all later ones, of all threads: memory stays exhausted
};

// While it lives, the allocation numbered `countdown` (0: the next one) throws std::bad_alloc.
class allocation_failure {
 public:
  explicit allocation_failure(int countdown, failing which = failing::one);
  ~allocation_failure();
  allocation_failure(const allocation_failure&) = delete;
  allocation_failure& operator=(const allocation_failure&) = delete;

  bool happened() const;
};

// Allocations of the whole program that have not been freed yet.
std::int64_t live_allocations();

#ifdef __GLIBC__
// While it lives, the system starts no thread.
class no_new_threads {
 public:
  no_new_threads();
  ~no_new_threads();
  no_new_threads(const no_new_threads&) = delete;
  no_new_threads& operator=(const no_new_threads&) = delete;
};
#endif

}  // namespace warploom::test
