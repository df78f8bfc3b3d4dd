// Minimum, mean and maximum of a stream of counts. Everything is an integer until the mean is taken, so that the
// result does not depend on how the stream was split among threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace warploom {

class summary {
 public:
  summary() = default;
  // Of `count` values that were summarised elsewhere.
  summary(std::int64_t count, std::int64_t sum, std::int64_t min, std::int64_t max)
      : count_(count), sum_(sum), min_(min), max_(max) {}

  void add(std::int64_t value) { add(value, 1); }

  // `times` values that are all equal.
  void add(std::int64_t value, std::int64_t times) {
    if (times == 0) return;
    count_ += times;
    sum_ += value * times;
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
  }

  void merge(const summary& other) {
    count_ += other.count_;
    sum_ += other.sum_;
    min_ = std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
  }

  // Without values, all three are 0: a predictor wants finite inputs.
  std::int64_t min() const { return count_ == 0 ? 0 : min_; }
  std::int64_t max() const { return count_ == 0 ? 0 : max_; }
  double mean() const { return count_ == 0 ? 0.0 : static_cast<double>(sum_) / static_cast<double>(count_); }

 private:
  std::int64_t count_ = 0;
  std::int64_t sum_ = 0;
  std::int64_t min_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t max_ = std::numeric_limits<std::int64_t>::min();
};

}  // namespace warploom
