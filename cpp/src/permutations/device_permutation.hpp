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

// What `compute(perm)` writes; where it returns false, or the GPU lacks memory for it, what `on_host()` returns.
template <class Compute, class OnHost>
device_permutation permutation_on_gpu_or_host(const device_csr& matrix, const device_allocator& allocate,
                                              Compute compute, OnHost on_host) {
  std::shared_ptr<std::int32_t> perm = make_permutation(matrix, allocate);
  if (matrix.num_rows() == 0) return perm;
  try {
    if (compute(perm.get())) return perm;
  } catch (const error& failure) {
    if (failure.kind() != error_kind::out_of_memory) throw;
  }
  perm.reset();
  return upload_permutation(on_host(), allocate);
}

}  // namespace warploom
