// Slices of a few rows, stored column by column: the lanes of a warp read consecutive places, and lane % height is the
// row of a slice that a lane adds to: the sum of a row is an interleaved_sum over the warp. Device code only.
#pragma once

#include <cstdint>

#include "kernels/device/values.cuh"

namespace warploom::cuda {

// Up to `Count` times 32 places of a warp, all of them in flight at once. No load is predicated: with more of them than
// predicate registers the compiler would wait for the first before it issues the last.
template <int Count, bool Full, class Value>
__device__ __forceinline__ void add_batch(sum_type_t<Value>& sum, const std::int32_t* __restrict__ indices,
                                          const Value* __restrict__ data, int left, const Value* __restrict__ x) {
  const int lane = threadIdx.x % 32;
  std::int32_t column[Count];
  Value value[Count];
  Value operand[Count];
#pragma unroll
  for (int u = 0; u < Count; ++u) {
    const int place = Full ? 32 * u : min(32 * u, left - 1 - lane);
    column[u] = __ldcs(indices + lane + place);
    value[u] = read_once(data + lane + place);
  }
#pragma unroll
  for (int u = 0; u < Count; ++u) operand[u] = read_only(x + max(column[u], 0));
#pragma unroll
  for (int u = 0; u < Count; ++u) {
    const bool stored = column[u] >= 0 && (Full || 32 * u + lane < left);
    sum += stored ? widen(value[u]) * widen(operand[u]) : 0;
  }
}

// The last places, fewer than `Count` times 32 or as many.
template <int Count, class Value>
__device__ __forceinline__ void add_rest(sum_type_t<Value>& sum, const std::int32_t* __restrict__ indices,
                                         const Value* __restrict__ data, int left, const Value* __restrict__ x) {
  if constexpr (Count > 2) {
    if (left <= 32 * (Count / 2)) return add_rest<Count / 2>(sum, indices, data, left, x);
  }
  add_batch<Count, false>(sum, indices, data, left, x);
}

// Adds the entries in the places begin .. end times x. Called by whole warps with the same range; consecutive lanes
// take consecutive places, and each has `Unroll` of them in flight. A column of -1 is padding, which must not be
// multiplied with x.
template <int Unroll, class Value>
__device__ __forceinline__ void add_places(sum_type_t<Value>& sum, unsigned begin, unsigned end,
                                           const std::int32_t* __restrict__ indices, const Value* __restrict__ data,
                                           const Value* __restrict__ x) {
  int left = static_cast<int>(end - begin);
  if (left <= 0) return;
  indices += begin;
  data += begin;
  for (; left >= 32 * Unroll; left -= 32 * Unroll, indices += 32 * Unroll, data += 32 * Unroll) {
    add_batch<Unroll, true>(sum, indices, data, left, x);
  }
  if (left > 0) add_rest<Unroll>(sum, indices, data, left, x);
}

}  // namespace warploom::cuda
