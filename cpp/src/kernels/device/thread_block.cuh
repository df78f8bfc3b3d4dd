// What the threads of a thread block share: its shared memory, laid out without bank conflicts, and sums over all of
// them. Device code only.
#pragma once

#include "kernels/device/warp.cuh"

namespace warploom::cuda {

// Index of entry i of an array in shared memory with one free slot after every 128 bytes: threads that each
// read consecutive entries then meet in different banks.
template <class Value>
__host__ __device__ constexpr int spread(int i) {
  return i + i / (128 / static_cast<int>(sizeof(Value)));
}

// The sum over the thread block, in every thread. Called by all of them; a second call with the same `warp_sums` needs
// a barrier in between.
template <int Threads, class Sum>
__device__ __forceinline__ Sum block_sum(Sum sum, Sum (&warp_sums)[Threads / 32]) {
  sum = group_sum<32>(sum);
  if (lane_id() == 0) warp_sums[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = warp_sums[0];
#pragma unroll
  for (int warp = 1; warp < Threads / 32; ++warp) sum += warp_sums[warp];
  return sum;
}

}  // namespace warploom::cuda
