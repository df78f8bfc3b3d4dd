// What the orders degree and minhash sort by, for the host and for GPUs.
#pragma once

#include <cstdint>

#include "host_device.hpp"

namespace warploom {

inline constexpr int num_degree_classes = 8;

// The classes are those of at least 32 d, 16 d, 8 d, 4 d, 2 d, d, d / 2, and the rest, d being sum / rows:
// 2 degree / d >= 64, 32, ..., 1, without fractions.
WARPLOOM_HOST_DEVICE constexpr int degree_class(std::int64_t degree, std::int64_t rows, std::int64_t sum) {
  int c = 0;
  while (c < num_degree_classes - 1 && 2 * degree * rows < (64 >> c) * sum) ++c;
  return c;
}

inline constexpr int num_minhashes = 8;

// The finaliser of MurmurHash3: a bijection of 32-bit integers.
WARPLOOM_HOST_DEVICE constexpr std::uint32_t mixed(std::uint32_t x) {
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return x ^ x >> 16;
}

// What tells the hash functions h = 0, 1, ... apart: that of a column is mixed(column ^ minhash_salt(h)).
WARPLOOM_HOST_DEVICE constexpr std::uint32_t minhash_salt(int h) { return mixed(static_cast<std::uint32_t>(h) + 1); }

}  // namespace warploom
