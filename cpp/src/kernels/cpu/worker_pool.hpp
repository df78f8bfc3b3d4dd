// Threads that wait for the next product. Starting a thread takes as long as a product with some 100,000 nonzeros;
// waking one that waits takes a tenth of that.
#pragma once

#include <functional>

namespace warploom {

// Calls `work` on the calling thread, and on up to `helpers` others at the same time. Returns when all calls have
// returned. A helper that has not started by the time that the caller's own call returns is not waited for: `work` is
// to take its share from what is left, and to throw nothing.
//
// Where another thread of the process has the helpers, or the system has no more threads, fewer take part. A forked
// child starts helpers of its own.
void work_together(int helpers, const std::function<void()>& work);

}  // namespace warploom
