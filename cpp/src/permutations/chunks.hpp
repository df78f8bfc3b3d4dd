// Parallel loops and sorting for the orders for locality. What they compute does not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "warploom/interruption.hpp"
#include "warploom/parallel.hpp"

namespace warploom {

// As parallel_for, in chunks of at most `grain` elements before each of which the calling thread asks whether the
// computation is still wanted.
template <class Body>
void for_chunks(std::int64_t count, std::int64_t grain, Body&& body) {
  parallel_for(0, count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin; first < end; first += grain) {
      check_interruption();
      body(first, std::min(end, first + grain));
    }
  });
}

// Sorts by a total order.
template <class Value, class Less>
void sort_in_parallel(std::vector<Value>& values, Less less) {
  const auto size = static_cast<std::int64_t>(values.size());
  constexpr std::int64_t fewest = 1 << 15;
  std::int64_t step = std::max(fewest, (size + num_threads() - 1) / num_threads());
  for_chunks((size + step - 1) / step, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      std::sort(values.begin() + part * step, values.begin() + std::min(size, (part + 1) * step), less);
    }
  });
  if (step >= size) return;
  std::vector<Value> merged(values.size());
  for (; step < size; step *= 2) {
    for_chunks((size + 2 * step - 1) / (2 * step), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) {
        const std::int64_t first = part * 2 * step;
        const std::int64_t middle = std::min(size, first + step), last = std::min(size, first + 2 * step);
        std::merge(values.begin() + first, values.begin() + middle, values.begin() + middle, values.begin() + last,
                   merged.begin() + first, less);
      }
    });
    values.swap(merged);
  }
}

}  // namespace warploom
