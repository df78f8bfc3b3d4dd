// Sums over a whole thread block, and sums that several thread blocks share. Device code only.
#pragma once

#include "kernels/device/values.cuh"

namespace warploom::cuda {

constexpr unsigned all_lanes = 0xffffffffu;

// Where entry i of an array in shared memory lies if one slot is left free after every 128 bytes: threads that each
// read consecutive entries then meet in different banks.
template <class Value>
__host__ __device__ constexpr int spread(int i) {
  return i + i / (128 / static_cast<int>(sizeof(Value)));
}

// Products of the nonzeros begin, begin + step, ... before end, added up.
template <int Unroll, class Value>
__device__ __forceinline__ sum_type_t<Value> strided_sum(unsigned begin, unsigned end, unsigned step,
                                                         const std::int32_t* __restrict__ indices,
                                                         const Value* __restrict__ data, const Value* __restrict__ x) {
  sum_type_t<Value> sum = 0;
#pragma unroll Unroll
  for (unsigned j = begin; j < end; j += step) sum += widen(__ldcs(data + j)) * widen(__ldg(x + __ldcs(indices + j)));
  return sum;
}

// The sum over groups of `size` consecutive lanes, a power of two. Called by whole warps.
template <class Sum>
__device__ __forceinline__ Sum group_sum(Sum sum, int size) {
  for (int offset = size / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(all_lanes, sum, offset);
  return sum;
}

// The sum over the thread block, in every thread. Called by all of them; a second call with the same `warp_sums` needs
// a barrier in between.
template <int Threads, class Sum>
__device__ __forceinline__ Sum block_sum(Sum sum, Sum (&warp_sums)[Threads / 32]) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(all_lanes, sum, offset);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = warp_sums[0];
#pragma unroll
  for (int warp = 1; warp < Threads / 32; ++warp) sum += warp_sums[warp];
  return sum;
}

// Whether this thread block is the last of `count` that leave partial sums for the same row, given that thread 0 has
// stored its own. The last may read them all, past the L1. `arrived` is zero again once it knows.
// Called by the whole thread block; a second call needs another `last` or a barrier in between.
__device__ __forceinline__ bool arrives_last(unsigned* arrived, int count, bool& last) {
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(arrived, 1u) + 1 == static_cast<unsigned>(count);
    if (last) *arrived = 0;
    __threadfence();
  }
  __syncthreads();
  return last;
}

}  // namespace warploom::cuda
