// The memory of a permutation that is computed on a GPU.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/device_csr.hpp"
#include "warploom/error.hpp"

namespace warploom {

inline std::shared_ptr<std::int32_t> make_permutation(const device_csr& matrix, const device_allocator& allocate) {
  const std::shared_ptr<void> memory = allocate(std::max<std::size_t>(matrix.num_rows() * sizeof(std::int32_t), 1));
  return {memory, static_cast<std::int32_t*>(memory.get())};
}

// What `compute(perm)` writes; null where it returns false, or the GPU lacks memory for it.
template <class Compute>
device_permutation permutation_unless_given_up(const device_csr& matrix, const device_allocator& allocate,
                                               Compute compute) {
  try {
    const std::shared_ptr<std::int32_t> perm = make_permutation(matrix, allocate);
    if (matrix.num_rows() == 0 || compute(perm.get())) return perm;
  } catch (const error& failure) {
    if (failure.kind() != error_kind::out_of_memory) throw;
  }
  return nullptr;
}

}  // namespace warploom
