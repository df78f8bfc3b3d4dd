// The connected components of a graph on a GPU, each named by its lowest node: the algorithm of Sutton, Ben-Nun and
// Barak, "Optimizing parallel graph connectivity computation via subgraph sampling" (2018). Trees of nodes are hooked,
// by two neighbours of each node at first, after which most nodes of the largest component need not be looked at again.
#pragma once

#include <cstdint>

#include "kernels/device/warp.cuh"

namespace warploom::components {

constexpr unsigned threads_per_block = 256;
constexpr unsigned first_neighbours = 2;

__device__ __forceinline__ unsigned of_tree(const unsigned* labels, unsigned node) {
  return *const_cast<const volatile unsigned*>(labels + node);
}

// Joins the trees of two nodes. The root of a tree is its lowest node.
__device__ inline void join(unsigned* labels, unsigned a, unsigned b) {
  a = of_tree(labels, a);
  b = of_tree(labels, b);
  while (a != b) {
    const unsigned high = max(a, b), low = min(a, b);
    const unsigned above = of_tree(labels, high);
    if (above == low) return;
    if (above == high && atomicCAS(labels + high, high, low) == high) return;
    a = of_tree(labels, of_tree(labels, high));
    b = of_tree(labels, low);
  }
}

__global__ void __launch_bounds__(threads_per_block)
    join_first_kernel(const std::int32_t* __restrict__ indptr, const std::int32_t* __restrict__ neighbours,
                      unsigned num_nodes, unsigned place, unsigned* labels) {
  const unsigned node = blockIdx.x * threads_per_block + threadIdx.x;
  if (node >= num_nodes) return;
  const unsigned at = static_cast<unsigned>(indptr[node]) + place;
  if (at < static_cast<unsigned>(indptr[node + 1])) join(labels, node, neighbours[at]);
}

// Makes every label that of the root.
__global__ void __launch_bounds__(threads_per_block) flatten_kernel(unsigned num_nodes, unsigned* labels) {
  const unsigned node = blockIdx.x * threads_per_block + threadIdx.x;
  if (node >= num_nodes) return;
  // Every step is stored, which halves the way that other nodes of a long chain have.
  unsigned label = of_tree(labels, node);
  for (unsigned above = of_tree(labels, label); above != label; above = of_tree(labels, label)) {
    *const_cast<volatile unsigned*>(labels + node) = label = above;
  }
}

// The most frequent label of a sample; one thread block of 256.
__global__ void __launch_bounds__(threads_per_block)
    frequent_label_kernel(unsigned num_nodes, const unsigned* __restrict__ labels, unsigned* __restrict__ frequent) {
  __shared__ unsigned sample[threads_per_block];
  __shared__ unsigned long long best;
  const auto node = static_cast<unsigned>(std::uint64_t{threadIdx.x} * num_nodes / threads_per_block);
  const unsigned label = labels[node];
  sample[threadIdx.x] = label;
  if (threadIdx.x == 0) best = 0;
  __syncthreads();
  unsigned long long equal = 0;
  for (unsigned i = 0; i < threads_per_block; ++i) equal += sample[i] == label ? 1 : 0;
  atomicMax(&best, equal << 32 | label);
  __syncthreads();
  if (threadIdx.x == 0) *frequent = static_cast<unsigned>(best);
}

// Joins each node with the rest of its neighbours, if it is not in the tree of the frequent label: every edge to that
// is there from the other side. A warp for 32 nodes.
__global__ void __launch_bounds__(threads_per_block)
    join_rest_kernel(const std::int32_t* __restrict__ indptr, const std::int32_t* __restrict__ neighbours,
                     unsigned num_nodes, const unsigned* __restrict__ frequent, unsigned* labels) {
  const unsigned lane = cuda::lane_id();
  const unsigned own = blockIdx.x * threads_per_block + threadIdx.x;
  unsigned begin = 0, end = 0;
  if (own < num_nodes && of_tree(labels, own) != *frequent) {
    begin = static_cast<unsigned>(indptr[own]) + first_neighbours;
    end = static_cast<unsigned>(indptr[own + 1]);
  }
  for (unsigned waiting = cuda::ballot(begin < end); waiting != 0; waiting &= waiting - 1) {
    const int of_lane = __ffs(waiting) - 1;
    const unsigned node = own - lane + static_cast<unsigned>(of_lane);
    const unsigned last = cuda::from_lane(end, of_lane);
    for (unsigned j = cuda::from_lane(begin, of_lane) + lane; j < last; j += 32) join(labels, node, neighbours[j]);
  }
}

__global__ void __launch_bounds__(threads_per_block)
    flag_roots_kernel(unsigned num_nodes, const unsigned* __restrict__ labels, std::uint8_t* __restrict__ flags) {
  const unsigned node = blockIdx.x * threads_per_block + threadIdx.x;
  if (node < num_nodes) flags[node] = labels[node] == node ? 1 : 0;
}

}  // namespace warploom::components
