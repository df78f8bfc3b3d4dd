// Communities within communities, found on the GPU that holds the matrix.
#pragma once

#include "warploom/device.hpp"
#include "warploom/geometry.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

// perm[new] = old in the memory of the GPU, the same as community.cpp computes; enqueued on the stream of the matrix,
// which has fewer than 2^31 nonzeros. The host orders the few clusters of the last level. Null where the graph is too
// large for 32-bit numbers of edges, and where the memory of the GPU does not suffice: it takes 40 bytes an edge, of
// which a nonzero may be two.
device_permutation community_permutation_on_gpu(const device_csr& matrix, const geometry& shape,
                                                const device_allocator& allocate);

}  // namespace warploom
