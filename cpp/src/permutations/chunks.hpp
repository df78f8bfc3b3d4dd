// Parallel loops, sorting and integers that threads share, for the orders for locality. What they compute does not
// depend on the number of threads.
#pragma once

#include <algorithm>
#include <atomic>
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

// What several threads do to the same integer at the same time. Integers are added, so that the order does not matter.

// Returns the value before.
template <class Integer>
Integer add_shared(Integer& to, Integer value) {
  return std::atomic_ref(to).fetch_add(value, std::memory_order_relaxed);
}

template <class Integer>
void store_shared(Integer& to, Integer value) {
  std::atomic_ref(to).store(value, std::memory_order_relaxed);
}

// Lowers `to` to `value` if it is above it; returns the value before.
template <class Integer>
Integer lower_shared(Integer& to, Integer value) {
  const std::atomic_ref shared(to);
  Integer before = shared.load(std::memory_order_relaxed);
  while (before > value && !shared.compare_exchange_weak(before, value, std::memory_order_relaxed)) {
  }
  return before;
}

// Returns the bits before.
template <class Integer>
Integer set_bits_shared(Integer& of, Integer bits) {
  const std::atomic_ref shared(of);
  const Integer before = shared.load(std::memory_order_relaxed);
  return (before & bits) == bits ? before : shared.fetch_or(bits, std::memory_order_relaxed);
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
