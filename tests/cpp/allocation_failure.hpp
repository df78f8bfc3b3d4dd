// Makes one allocation of this thread fail, to see what is left behind.
#pragma once

namespace warploom::test {

// While it lives, the allocation numbered `countdown` (0: the next one) of the thread that made it throws
// std::bad_alloc.
class allocation_failure {
 public:
  explicit allocation_failure(int countdown);
  ~allocation_failure();
  allocation_failure(const allocation_failure&) = delete;
  allocation_failure& operator=(const allocation_failure&) = delete;

  bool happened() const;
};

}  // namespace warploom::test
