// Fork-join loops over host threads. Threads are started per call: no pool survives a fork() and nothing has to be
// shut down at exit. Work below the grain runs on the calling thread alone.
#pragma once

#include <cstdint>
#include <functional>

namespace warploom {

// Threads a loop may use: WARPLOOM_NUM_THREADS if set, else the processors this process may run on; fewer if limited.
int num_threads();

// Sets the number of threads for the process; 0 returns to the default.
void set_num_threads(int count);

// While it lives, loops that this thread starts use no more threads than this, and than an outer limit says.
class fewer_threads {
 public:
  explicit fewer_threads(int most);
  ~fewer_threads();
  fewer_threads(const fewer_threads&) = delete;
  fewer_threads& operator=(const fewer_threads&) = delete;

 private:
  int outer_;
};

// Calls body(begin, end) on disjoint ranges that together cover [begin, end). A range holds at least `grain`
// elements (but for the last), and ranges are scheduled dynamically. The first exception thrown is rethrown here.
// Where the system has no more threads, or no memory for one, those there are do the work.
void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t)>& body);

}  // namespace warploom
