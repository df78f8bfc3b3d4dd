// Rows of many shapes, for tests of how work is distributed.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace warploom::test {

inline std::vector<std::int64_t> offsets_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> indptr{0};
  for (const std::int64_t length : lengths) indptr.push_back(indptr.back() + length);
  return indptr;
}

inline std::vector<std::vector<std::int64_t>> many_offsets() {
  std::vector<std::vector<std::int64_t>> all{
      offsets_of({}),
      offsets_of({0}),
      offsets_of({1}),
      offsets_of(std::vector<std::int64_t>(5000, 0)),
      offsets_of(std::vector<std::int64_t>(3000, 1)),
      offsets_of(std::vector<std::int64_t>(100, 64)),
      offsets_of({0, 50000, 0}),
      offsets_of({255, 256, 257, 511, 512, 513, 514, 1024, 0, 1025, 2048, 0, 0, 2049}),
  };
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<std::int64_t>(random() % n); };
  for (int matrix = 0; matrix < 40; ++matrix) {
    std::vector<std::int64_t> lengths(below(400));
    for (std::int64_t& length : lengths) length = below(20) == 0 ? below(3000) : below(2 + 2 * matrix);
    all.push_back(offsets_of(lengths));
  }
  return all;
}

}  // namespace warploom::test
