// The memory of a permutation that is computed on a GPU.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/device_csr.hpp"

namespace warploom {

inline std::shared_ptr<std::int32_t> make_permutation(const device_csr& matrix, const device_allocator& allocate) {
  const std::shared_ptr<void> memory = allocate(std::max<std::size_t>(matrix.num_rows() * sizeof(std::int32_t), 1));
  return {memory, static_cast<std::int32_t*>(memory.get())};
}

}  // namespace warploom
