// What the orders of the nodes of a graph on a GPU have in common.
#pragma once

#include <cstdint>

#include "device/algorithms.hpp"
#include "device/launch.cuh"
#include "device/workspace.hpp"

namespace warploom::node_order {

constexpr unsigned threads_per_block = 256;

static __global__ void __launch_bounds__(threads_per_block)
    count_up_kernel(unsigned size, std::int32_t* __restrict__ numbers) {
  const unsigned i = blockIdx.x * threads_per_block + threadIdx.x;
  if (i < size) numbers[i] = static_cast<std::int32_t>(i);
}

static __global__ void __launch_bounds__(threads_per_block)
    invert_kernel(const std::int32_t* __restrict__ order, unsigned size, std::int32_t* __restrict__ places) {
  const unsigned i = blockIdx.x * threads_per_block + threadIdx.x;
  if (i < size) places[order[i]] = static_cast<std::int32_t>(i);
}

static __global__ void __launch_bounds__(threads_per_block)
    flag_rows_kernel(const std::int32_t* __restrict__ order, unsigned size, std::int32_t num_rows,
                     std::uint8_t* __restrict__ flags) {
  const unsigned i = blockIdx.x * threads_per_block + threadIdx.x;
  if (i < size) flags[i] = order[i] < num_rows ? 1 : 0;
}

// The places in an order that hold rows, which are the lowest of the nodes.
inline cuda::pooled_memory places_of_rows(const std::int32_t* order, unsigned num_nodes, std::int32_t num_rows,
                                          cudaStream_t stream) {
  const cuda::pooled_memory flags(num_nodes, stream), count(sizeof(std::int32_t), stream);
  cuda::pooled_memory places(num_nodes * sizeof(std::int32_t), stream);
  cuda::launch("flag_rows_kernel", flag_rows_kernel, num_nodes, stream, order, num_nodes, num_rows,
               flags.as<std::uint8_t>());
  cuda::select_positions(flags.as<const std::uint8_t>(), places.as<std::int32_t>(), count.as<std::int32_t>(), num_nodes,
                         stream);
  return places;
}

}  // namespace warploom::node_order
