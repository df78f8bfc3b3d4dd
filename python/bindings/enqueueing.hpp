// Products of a plan share its workspace, so that they are enqueued one at a time, and those of operands in host memory
// are computed one at a time.
#pragma once

#include <Python.h>

#include <memory>

#include "warploom/process_mutex.hpp"

namespace warploom::python {

struct enqueueing {
  std::unique_ptr<process_mutex> mutex = std::make_unique<process_mutex>();
};

// A thread that has to wait lets go of Python meanwhile: whose turn it is may need it to allocate memory.
class one_at_a_time {
 public:
  explicit one_at_a_time(enqueueing& turns) : turns_(*turns.mutex) {
    if (turns_.try_lock()) return;
    PyThreadState* const state = PyEval_SaveThread();
    turns_.lock();
    PyEval_RestoreThread(state);
  }
  ~one_at_a_time() { turns_.unlock(); }
  one_at_a_time(const one_at_a_time&) = delete;
  one_at_a_time& operator=(const one_at_a_time&) = delete;

 private:
  process_mutex& turns_;
};

}  // namespace warploom::python
