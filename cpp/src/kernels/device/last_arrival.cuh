// Sums that several warps or thread blocks have parts of. Each leaves its partial sum in a slot of a workspace and
// counts itself; the last to arrive adds up the slots and writes the result. No floating-point atomics and no waiting:
// it does not matter which of them run at the same time.
//
// The result does not depend on who is last. Slots are numbered by the pieces of the work, not by arrival; the last one
// reads its own partial sum back like all others; and which thread adds which slots, in which order, is fixed.
//
// Why the last one sees all partial sums, by the CUDA memory model:
// 1. The threads of a group store their partial sums. A barrier (sync_warp) orders these stores before what the leader
//    of the group does next; where the leader is the only one that stores, program order does.
// 2. The leader fences and adds 1 to the counter: a release pattern at device scope. Release is cumulative: whatever
//    happened before the fence, the stores of the other lanes included, happens before what acquires it.
// 3. The additions to a counter are atomic read-modify-writes, hence totally ordered, and each observes all those
// before
//    it. The leader that reads count - 1 fences after its addition, an acquire pattern: it synchronizes with all
//    others. The rest read nothing and need no second fence.
// 4. A barrier (sync_warp or __syncthreads) passes this on to the threads of the last group, whose loads come after it.
//    The shuffle that tells them would not do: shuffles order no memory accesses.
// So no two accesses race, and ordinary ones would do. Partial sums are stored and loaded past the L1 (.cg) all the
// same: they go from one multiprocessor to another by way of the L2 and are read once, so there is nothing to keep.
//
// The counter is zero between runs. The host clears it once; the last to arrive resets it, after all additions (they
// happened before, by 3) and before the next run, since kernels of a stream run one after the other. For the same
// reason a plan runs one product at a time.
//
// Device code only.
#pragma once

#include <cstdint>

#include "kernels/device/rows.cuh"
#include "kernels/device/warp.cuh"

namespace warploom::cuda {

namespace detail {

// Counts one of `count` groups; called by its leader. Returns how many came before.
//
// cuda::atomic_ref with memory_order_acq_rel says the same, but is inline assembly that may touch all memory: nvcc 13.0
// then also writes arrays to local memory that kernels keep in registers (seen in COO, float64).
__device__ __forceinline__ unsigned arrive(unsigned* arrived, int count) {
  __threadfence();
  const unsigned before = atomicAdd(arrived, 1u);
  if (before + 1 == static_cast<unsigned>(count)) __threadfence();
  return before;
}

}  // namespace detail

// Whether this thread block is the last of `count`, given that its thread 0 has stored the partial sum. Called by the
// whole thread block; a second call needs another `last`, in shared memory, or a barrier in between.
__device__ __forceinline__ bool block_arrives_last(unsigned* arrived, int count, bool& last) {
  if (threadIdx.x == 0) {
    last = detail::arrive(arrived, count) + 1 == static_cast<unsigned>(count);
    if (last) *arrived = 0;
  }
  __syncthreads();
  return last;
}

// What thread `thread` of `Threads` adds up of `count` partial sums: every Threads-th. `Unroll` of them are loaded at
// once, or (0) as many as the compiler likes.
template <int Threads, int Unroll, class Sum>
__device__ __forceinline__ Sum share_of_partial_sums(const Sum* partial_sums, int count, int thread) {
  Sum sum = 0;
  if constexpr (Unroll > 0) {
#pragma unroll Unroll
    for (int i = thread; i < count; i += Threads) sum += __ldcg(partial_sums + i);
  } else {
    for (int i = thread; i < count; i += Threads) sum += __ldcg(partial_sums + i);
  }
  return sum;
}

// Leaves `sum`, the same in every lane, as number `own` of `count` partial sums. For the last warp to arrive `sum`
// becomes what the lane has of their total, still to be added up over the warp. Called by whole warps.
template <int Unroll, class Sum>
__device__ __forceinline__ bool warp_arrives_last(Sum* partial_sums, int own, int count, unsigned* arrived, Sum& sum) {
  const int lane = lane_id();
  unsigned before = 0;
  if (lane == 0) {
    __stcg(partial_sums + own, sum);
    before = detail::arrive(arrived, count);
  }
  before = from_lane(before, 0);
  if (before + 1 != static_cast<unsigned>(count)) return false;  // the whole warp
  sync_warp();
  sum = share_of_partial_sums<32, Unroll>(partial_sums, count, lane);
  if (lane == 0) *arrived = 0;
  return true;
}

// ---- Cut rows

// Stores `part` (the same in every lane) as the partial sum in `slot` of cut row `cut`; the last warp writes the row to
// *y. Called by whole warps.
template <class Value>
__device__ __forceinline__ void add_segment(const cut_rows_view<Value>& cut_rows, int cut, int slot,
                                            sum_type_t<Value> part, Value* y) {
  const row_segments pieces = cut_rows.rows[cut];
  sum_type_t<Value>* const partial_sums = cut_rows.workspace + pieces.first;
  if (!warp_arrives_last<0>(partial_sums, slot - pieces.first, pieces.count, cut_rows.arrived + cut, part)) return;
  const sum_type_t<Value> sum = interleaved_sum<1>(part);
  if (lane_id() == 0) *y = narrow<Value>(sum);
}

// A group's piece `partial` of a cut row of SpMM, for tile `tile` of `tiles` tiles of columns. A group is `size`
// consecutive lanes, a power of two. Lanes without a part in a piece say cut = false; a group has none if its first
// lane has none. Pieces of long rows are stored and not counted.
template <class Value>
struct cut_row {
  row_segments slots;
  unsigned* arrived;
  int most_pieces;

  __device__ cut_row(const segments_view<Value>& matrix, bool cut, int partial, unsigned tile, unsigned tiles) {
    const int split = cut ? matrix.split_of_partial[partial] : 0;
    slots = cut ? matrix.splits[split] : row_segments{0, 0};
    arrived = matrix.arrived + std::int64_t{split} * tiles + tile;
    most_pieces = matrix.most_pieces;
  }

  // Whether this group is the last of its row, given that its lanes have stored their partial sums. Called by whole
  // warps.
  __device__ bool arrives_last(bool cut, int size) const {
    sync_warp();
    unsigned before = 0;
    if (cut && leads(size) && slots.count <= most_pieces) before = detail::arrive(arrived, slots.count);
    before = from_lane(before, 0, size);
    sync_warp();
    return cut && before + 1 == static_cast<unsigned>(slots.count);
  }

  // By the last group once it has stored the row: earlier it would cost the kernels registers.
  __device__ void reset(int size) const {
    if (leads(size)) *arrived = 0;
  }

 private:
  __device__ static bool leads(int size) { return (threadIdx.x & (size - 1)) == 0; }
};

}  // namespace warploom::cuda
