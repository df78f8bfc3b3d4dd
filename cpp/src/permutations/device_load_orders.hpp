// The orders by load, computed on the GPU that holds the matrix.
#pragma once

#include <cstdint>
#include <memory>

#include "warploom/device.hpp"
#include "warploom/geometry.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

// perm[new] = old in the memory of the GPU, the same as plain.cpp, flipped.cpp and lpt.cpp compute; enqueued on the
// stream of the matrix, which has fewer than 2^31 nonzeros.

device_permutation plain_permutation_on_gpu(const device_csr& matrix, const geometry& shape,
                                            const device_allocator& allocate);
device_permutation flipped_permutation_on_gpu(const device_csr& matrix, const geometry& shape,
                                              const device_allocator& allocate);
// For at most 32 warps.
device_permutation lpt_permutation_on_gpu(const device_csr& matrix, const geometry& shape,
                                          const device_allocator& allocate);

}  // namespace warploom
