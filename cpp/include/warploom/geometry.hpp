// What features and permutations assume of the hardware.
#pragma once

#include "warploom/error.hpp"

namespace warploom {

struct geometry {
  int warps = 32;                    // N_w: warps per thread block; row p is processed by warp p mod N_w
  int threads = 32;                  // N_t: threads per warp
  int elements_per_cache_line = 32;  // consecutive columns of A that need one cache line of a column of B
};

inline void validate(const geometry& shape) {
  const auto positive = [](int value, const char* name) {
    if (value < 1)
      throw error(error_kind::parameter, name, -1,
                  std::string(name) + " must be at least 1, got " + std::to_string(value));
  };
  positive(shape.warps, "warps");
  positive(shape.threads, "threads");
  positive(shape.elements_per_cache_line, "elements_per_cache_line");
}

}  // namespace warploom
