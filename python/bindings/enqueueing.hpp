// Products of a plan whose operands are in GPU memory are enqueued one at a time: they share its workspace. Python's
// global lock sees to it where there is one; free-threaded Python has a lock for each plan instead.
#pragma once

#include <Python.h>

namespace warploom::python {

#ifdef Py_GIL_DISABLED
struct enqueueing {
  PyMutex mutex{};  // of Python: a thread that waits for it does not hold up others
};

class one_at_a_time {
 public:
  explicit one_at_a_time(enqueueing& turns) : turns_(turns) { PyMutex_Lock(&turns_.mutex); }
  ~one_at_a_time() { PyMutex_Unlock(&turns_.mutex); }
  one_at_a_time(const one_at_a_time&) = delete;
  one_at_a_time& operator=(const one_at_a_time&) = delete;

 private:
  enqueueing& turns_;
};
#else
struct enqueueing {};

class one_at_a_time {
 public:
  explicit one_at_a_time(enqueueing&) {}
};
#endif

}  // namespace warploom::python
