// The orders degree and minhash, computed on the GPU that holds the matrix.
#pragma once

#include "warploom/device.hpp"
#include "warploom/geometry.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

// perm[new] = old in the memory of the GPU, the same as degree.cpp and minhash.cpp compute; enqueued on the stream of
// the matrix, which has fewer than 2^31 nonzeros.

device_permutation degree_permutation_on_gpu(const device_csr& matrix, const geometry& shape,
                                             const device_allocator& allocate);
// Null where the memory of the GPU does not suffice: it takes 60 bytes a row.
device_permutation minhash_permutation_on_gpu(const device_csr& matrix, const geometry& shape,
                                              const device_allocator& allocate);

}  // namespace warploom
