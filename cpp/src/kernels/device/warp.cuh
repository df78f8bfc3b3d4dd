// What the lanes of a warp exchange: sums, scans, single values and votes. Everything that shuffles, votes or orders
// the memory accesses of a warp is here, so that the mask and the order of summation have one definition each.
//
// All functions are called by whole warps: a lane that has nothing to add takes part with a zero. Masks of some lanes
// are not supported because no kernel needs them. Lanes are those of threadIdx.x: thread blocks have one dimension.
//
// Floating-point sums depend on their order, so two of them are offered, and a kernel keeps to one: `group_sum` starts
// with the lanes furthest apart, `interleaved_sum` with the nearest. Both are butterflies: every lane adds up the same
// tree of pairs (IEEE addition is commutative), so that all of them hold the same bits.
//
// Device code only.
#pragma once

namespace warploom::cuda {

// Thread blocks on a multiprocessor that the compiler is to leave registers for: as many as wanted, or fewer where the
// architecture has no room for so many threads.
constexpr unsigned blocks_with_registers(unsigned threads, unsigned wanted) {
#if !defined(__CUDA_ARCH__)
  constexpr unsigned most_threads = 2048;
#elif __CUDA_ARCH__ < 800
  constexpr unsigned most_threads = 1024;
#elif __CUDA_ARCH__ % 100 != 0 || __CUDA_ARCH__ >= 1200
  constexpr unsigned most_threads = 1536;
#else
  constexpr unsigned most_threads = 2048;
#endif
  return wanted < most_threads / threads ? wanted : most_threads / threads;
}

inline constexpr unsigned whole_warp = 0xffffffffu;

__device__ __forceinline__ unsigned lane_id() { return threadIdx.x % 32; }

// ---- Memory

// What lanes stored before it can be read by all lanes of the warp after it.
__device__ __forceinline__ void sync_warp() { __syncwarp(); }

// Keeps the compiler from moving the loads before it behind those after it. Meant for loads of a matrix in front of
// loads of x, which have to wait for the columns: all of the former shall be under way by then.
__device__ __forceinline__ void keep_load_order() { __syncwarp(); }

// ---- Votes

// Bit l of the result: `condition` in lane l.
__device__ __forceinline__ unsigned ballot(bool condition) { return __ballot_sync(whole_warp, condition); }

__device__ __forceinline__ bool any_lane(bool condition) { return __any_sync(whole_warp, condition); }

template <class T>
__device__ __forceinline__ bool same_in_all_lanes(T value) {
  int same = 0;
  __match_all_sync(whole_warp, value, &same);
  return same != 0;
}

// The lanes that have the same value as this one.
template <class T>
__device__ __forceinline__ unsigned lanes_alike(T value) {
  return __match_any_sync(whole_warp, value);
}

// ---- Single values

// The value of lane `lane` of the group of `size` consecutive lanes, a power of two. A broadcast if all name the same.
template <class T>
__device__ __forceinline__ T from_lane(T value, int lane, int size = 32) {
  return __shfl_sync(whole_warp, value, lane, size);
}

// The value of the lane `distance` places before or after. Where there is none, the lane's own.
template <class T>
__device__ __forceinline__ T from_lane_before(T value, int distance = 1) {
  return __shfl_up_sync(whole_warp, value, distance);
}
template <class T>
__device__ __forceinline__ T from_lane_after(T value, int distance = 1) {
  return __shfl_down_sync(whole_warp, value, distance);
}

// The value of the lane whose number differs in the bit `offset`.
template <class T>
__device__ __forceinline__ T exchange(T value, int offset) {
  return __shfl_xor_sync(whole_warp, value, offset);
}

// ---- Sums

// The sum over a group of `Size` consecutive lanes, a power of two, in all of them; the furthest lanes meet first.
template <int Size, class Sum>
__device__ __forceinline__ Sum group_sum(Sum sum) {
#pragma unroll
  for (int offset = Size / 2; offset > 0; offset /= 2) sum += exchange(sum, offset);
  return sum;
}

template <class Sum>
__device__ __forceinline__ Sum group_sum(Sum sum, int size) {
  for (int offset = size / 2; offset > 0; offset /= 2) sum += exchange(sum, offset);
  return sum;
}

template <class Value>
__device__ __forceinline__ Value warp_maximum(Value value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value = max(value, exchange(value, offset));
  return value;
}

// One instruction from Ampere on.
__device__ __forceinline__ int warp_minimum(int value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_min_sync(whole_warp, value);
#else
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value = min(value, exchange(value, offset));
  return value;
#endif
}
__device__ __forceinline__ int warp_maximum(int value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(whole_warp, value);
#else
  return warp_maximum<int>(value);
#endif
}

// The bits that are set in some lane.
__device__ __forceinline__ unsigned warp_or(unsigned bits) {
#if __CUDA_ARCH__ >= 800
  return __reduce_or_sync(whole_warp, bits);
#else
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) bits |= exchange(bits, offset);
  return bits;
#endif
}

// The sum over the lanes of a group of `Size` that are `Stride` apart, in all of them; the nearest lanes meet first.
// Both are powers of two. A stride of 1: over the group.
template <int Stride, int Size = 32, class Sum>
__device__ __forceinline__ Sum interleaved_sum(Sum sum) {
#pragma unroll
  for (int offset = Stride; offset < Size; offset *= 2) sum += exchange(sum, offset);
  return sum;
}

template <class Sum>
__device__ __forceinline__ Sum interleaved_sum(Sum sum, unsigned stride, unsigned size = 32) {
  for (unsigned offset = stride; offset < size; offset *= 2) sum += exchange(sum, offset);
  return sum;
}

// ---- Sums of several columns, dealt out among lanes
//
// Each step halves the columns that a lane is responsible for while there are more than one: that takes about as many
// shuffles as there are columns, instead of as many for each as a sum in all lanes takes.

// What a lane of a group of `Threads` holds after reduce_scatter: `Owned` of `Width` columns, starting at `first`. With
// more lanes than columns several lanes hold the same column and one of them `owns` it.
template <class Value, int Owned>
struct owned_sums {
  Value sums[Owned];
  int first;
  bool owns;
};

namespace detail {

template <int Offset, int Columns, class Value>
__device__ __forceinline__ void reduce_scatter_step(Value* sums, int lane, int& first, bool& owns) {
  if constexpr (Offset > 0) {
    if constexpr (Columns > 1) {
      constexpr int half = Columns / 2;
      const bool upper = lane & Offset;
#pragma unroll
      for (int c = 0; c < half; ++c) {
        const Value given = upper ? sums[c] : sums[c + half];
        const Value kept = upper ? sums[c + half] : sums[c];
        sums[c] = kept + exchange(given, Offset);
      }
      first += upper ? half : 0;
      reduce_scatter_step<Offset / 2, half>(sums, lane, first, owns);
    } else {
      sums[0] += exchange(sums[0], Offset);
      owns = owns && !(lane & Offset);
      reduce_scatter_step<Offset / 2, 1>(sums, lane, first, owns);
    }
  }
}

}  // namespace detail

// Adds `sums` over the group and deals the columns out among its lanes; the furthest lanes meet first.
template <int Threads, class Value, int Width>
__device__ __forceinline__ auto reduce_scatter(Value (&sums)[Width], int lane) {
  constexpr int owned = Width > Threads ? Width / Threads : 1;
  int first = 0;
  bool owns = true;
  detail::reduce_scatter_step<Threads / 2, Width>(sums, lane, first, owns);
  owned_sums<Value, owned> mine;
#pragma unroll
  for (int c = 0; c < owned; ++c) mine.sums[c] = sums[c];
  mine.first = first;
  mine.owns = owns;
  return mine;
}

template <class Value, int Owned, class Function>
__device__ __forceinline__ void for_each_owned(const owned_sums<Value, Owned>& mine, Function&& function) {
  if (!mine.owns) return;
#pragma unroll
  for (int c = 0; c < Owned; ++c) function(mine.first + c, mine.sums[c]);
}

// Adds `sums` over groups of `Columns` consecutive lanes: lane l gets column l % Columns. The nearest lanes meet first.
template <int Columns, class Sum>
__device__ __forceinline__ Sum interleaved_reduce_scatter(Sum (&sums)[Columns], unsigned lane) {
#pragma unroll
  for (int left = Columns / 2, offset = 1; left > 0; left /= 2, offset *= 2) {
    const bool odd = (lane & offset) != 0;
#pragma unroll
    for (int i = 0; i < left; ++i) {
      const Sum kept = odd ? sums[2 * i + 1] : sums[2 * i];
      const Sum given = odd ? sums[2 * i] : sums[2 * i + 1];
      sums[i] = kept + exchange(given, offset);
    }
  }
  return sums[0];
}

// ---- Segmented scans: a segment is a run of lanes, and a lane gets the sum over those of its segment up to itself.

// A sum that is still open to the left, or (`closed`) starts within its lane.
template <class Sum>
struct open_sum {
  Sum sum;
  bool closed;

  __device__ __forceinline__ void prepend(Sum before, bool before_closed) {
    if (closed) return;
    sum = before + sum;
    closed = before_closed;
  }
};

// Every lane gets the sum of the lanes from the last closed one up to itself, closed if there is one.
template <class Sum>
__device__ __forceinline__ open_sum<Sum> segmented_scan(open_sum<Sum> mine) {
  const unsigned lane = lane_id();
#pragma unroll
  for (unsigned offset = 1; offset < 32; offset *= 2) {
    const Sum before = from_lane_before(mine.sum, offset);
    const bool before_closed = from_lane_before(static_cast<int>(mine.closed), offset);
    if (lane >= offset) mine.prepend(before, before_closed);
  }
  return mine;
}

// Segments begin at lane 0 and at the bits of `heads`: every lane gets the sum from there up to itself. Two ways to
// stop after the longest segment. Both add the same numbers in the same order.
//
// Unrolled, by following the runs of lanes without a head.
template <class Sum>
__device__ __forceinline__ Sum segmented_scan(Sum sum, unsigned heads) {
  const unsigned lane = threadIdx.x % 32;
  const unsigned heads_up_to_me = heads & (whole_warp >> (31 - lane));
  const int behind = heads_up_to_me ? __clz(heads_up_to_me) - (31 - static_cast<int>(lane)) : static_cast<int>(lane);
  unsigned runs = ~heads;  // where at least `offset` lanes in a row go on with a segment
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    if (runs == 0) break;
    const Sum before = from_lane_before(sum, offset);
    if (offset <= behind) sum += before;
    runs &= runs >> offset;
  }
  return sum;
}

// As a loop, by asking the lanes whether one of them goes on: fewer instructions and registers, for large kernels.
template <class Sum>
__device__ __forceinline__ Sum segmented_scan_by_votes(Sum sum, unsigned heads, int lane) {
  const int first = 31 - __clz((heads & (whole_warp >> (31 - lane))) | 1u);  // of the segment of this lane
  for (int offset = 1; any_lane(lane - offset >= first); offset *= 2) {
    const Sum before = from_lane_before(sum, offset);
    if (lane - offset >= first) sum += before;
  }
  return sum;
}

}  // namespace warploom::cuda
