// SpMV over slices of 32 / threads_per_row rows, one warp each: what SELL-C-sigma and ELL share on the GPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "warploom/kernels/product.hpp"

namespace warploom {

// The first `head` columns of every slice are found without reading an offset; the remaining columns of a slice are its
// tail. A column index of -1 marks padding.
struct host_slices {
  std::int64_t num_rows = 0;
  value_type dtype = value_type::float32;
  int height = 32;                      // a power of two up to 32
  std::int64_t head = 0;                // columns
  std::vector<std::uint32_t> tail_ptr;  // [number of slices + 1] places; empty: no slice has a tail
  std::vector<std::int32_t> row_ids;    // stored row p produces row row_ids[p] of y; empty: row p
  std::vector<std::int32_t> indices;    // slices * head * height places, then the tails
  std::vector<std::byte> data;
  std::int64_t num_slices() const { return (num_rows + height - 1) / height; }
};

// How many columns of padding a head may add to that of the format: as many as small matrices, which gain from it, can
// afford.
inline std::int64_t sell_spare_columns(std::int64_t places, std::int64_t height) {
  return std::min<std::int64_t>(places / 4 + 256, 16384) / height;
}

namespace cuda {
struct device_slices;  // device_slices.hpp
}

std::unique_ptr<product_plan> make_cuda_slices_plan(cuda::device_slices slices);

}  // namespace warploom
