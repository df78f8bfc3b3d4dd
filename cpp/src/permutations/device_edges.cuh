// Edges as numbers of 64 bits, (node, neighbour), and from sorted ones of these the lists of neighbours.
#pragma once

#include <cstdint>

namespace warploom::edges {

constexpr int threads_per_block = 256;

__device__ __forceinline__ std::uint64_t pair_of(unsigned high, unsigned low, int bits) {
  return std::uint64_t{high} << bits | low;
}

// What stands in the place of an edge that does not count, above all others if no node has the highest number.
__device__ __forceinline__ std::uint64_t no_edge(int bits) { return (std::uint64_t{1} << 2 * bits) - 1; }

// The second node of each.
static __global__ void __launch_bounds__(threads_per_block)
    neighbours_kernel(const std::uint64_t* __restrict__ edges, const std::int32_t* __restrict__ count, int bits,
                      std::int32_t* __restrict__ neighbours) {
  const unsigned stride = gridDim.x * threads_per_block;
  for (unsigned i = blockIdx.x * threads_per_block + threadIdx.x; i < static_cast<unsigned>(*count); i += stride) {
    neighbours[i] = static_cast<std::int32_t>(edges[i] & ((std::uint64_t{1} << bits) - 1));
  }
}

// Where the edges of each node start.
static __global__ void __launch_bounds__(threads_per_block)
    offsets_kernel(const std::uint64_t* __restrict__ edges, const std::int32_t* __restrict__ count, int bits,
                   unsigned num_nodes, std::int32_t* __restrict__ indptr) {
  const unsigned node = blockIdx.x * threads_per_block + threadIdx.x;
  if (node > num_nodes) return;
  const std::uint64_t least = pair_of(node, 0, bits);
  int low = 0, high = *count;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (edges[middle] < least) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  indptr[node] = low;
}

}  // namespace warploom::edges
