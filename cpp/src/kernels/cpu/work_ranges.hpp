// How the CPU kernels distribute work: the rows are divided once, at preparation, into ranges of about equal numbers of
// nonzeros; a run schedules (panel of columns, range of rows) pairs. One thread computes an element of C from first to
// last nonzero, so the result does not depend on the number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "kernels/cpu/worker_pool.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

// Calls body(i) for every i below `count`, on so many threads at most.
template <class Body>
void for_each_together(std::int64_t count, int threads, Body body) {
  if (threads <= 1 || count <= 1) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  std::atomic<std::int64_t> next{0};
  // Several at a time, where there are many more than threads.
  const std::int64_t step = std::max<std::int64_t>(1, count / (16 * threads));
  work_together(threads - 1, [&] {
    for (std::int64_t first = next.fetch_add(step); first < count; first = next.fetch_add(step)) {
      for (std::int64_t i = first; i < std::min(count, first + step); ++i) body(i);
    }
  });
}

// Range r holds the items boundaries[r] .. boundaries[r+1].
struct work_ranges {
  std::vector<std::int64_t> boundaries{0};
  std::int64_t total_work = 0;

  std::int64_t size() const { return static_cast<std::int64_t>(boundaries.size()) - 1; }
};

// `work(item)` is the number of nonzeros of an item; an item costs at least one unit even without nonzeros.
template <class Work>
work_ranges balance_work(std::int64_t count, Work work) {
  constexpr std::int64_t work_per_range = 4096;
  work_ranges ranges;
  std::int64_t pending = 0;
  for (std::int64_t item = 0; item < count; ++item) {
    const std::int64_t item_work = work(item) + 1;
    pending += item_work;
    ranges.total_work += item_work;
    if (pending < work_per_range && item + 1 < count) continue;
    ranges.boundaries.push_back(item + 1);
    pending = 0;
  }
  return ranges;
}

// Calls body(first item, last item + 1, first column, columns) for every range and every panel of `panel_width` of
// the k columns; panels are the outer loop.
template <class Body>
void for_each_panel(const work_ranges& ranges, std::int64_t k, std::int64_t panel_width, Body body) {
  constexpr std::int64_t work_per_thread = 1 << 16;  // multiply-adds that are worth a thread
  if (ranges.size() == 0 || k == 0) return;
  const std::int64_t panels = (k + panel_width - 1) / panel_width;
  const std::int64_t threads = std::min<std::int64_t>(num_threads(), ranges.total_work * k / work_per_thread);
  for_each_together(panels * ranges.size(), static_cast<int>(threads), [&](std::int64_t pair) {
    const std::int64_t first_column = pair / ranges.size() * panel_width;
    const std::int64_t range = pair % ranges.size();
    body(ranges.boundaries[range], ranges.boundaries[range + 1], first_column, std::min(panel_width, k - first_column));
  });
}

}  // namespace warploom
