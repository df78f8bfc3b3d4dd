// Reverse Cuthill-McKee, computed on the GPU that holds the matrix.
#pragma once

#include "warploom/device.hpp"
#include "warploom/geometry.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

// perm[new] = old in the memory of the GPU, the same as rcm.cpp computes; enqueued on the stream of the matrix, which
// has fewer than 2^31 nonzeros. Null where a search has so many levels of so few nodes that the host is faster (long
// chains), where the graph is too large for 32-bit numbers of edges, and where the memory of the GPU does not suffice.
device_permutation rcm_permutation_on_gpu(const device_csr& matrix, const geometry& shape,
                                          const device_allocator& allocate);

}  // namespace warploom
