// Reductions over a group of consecutive lanes of a warp. All lanes of the warp must take part.
#pragma once

namespace warploom::cuda {

// The sums over a group of `Threads` lanes that one lane holds after reduce_scatter: `Owned` of `Width` columns,
// starting at `first`. With more lanes than columns several lanes hold the same column and one of them `owns` it.
template <class Value, int Owned>
struct owned_sums {
  Value sums[Owned];
  int first;
  bool owns;
};

namespace detail {

// One butterfly step: halves the columns a lane is responsible for while there are more than one, so that the whole
// reduction takes Width + log2(Threads / Width) shuffles instead of Width * log2(Threads).
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
        sums[c] = kept + __shfl_xor_sync(0xffffffffu, given, Offset);
      }
      first += upper ? half : 0;
      reduce_scatter_step<Offset / 2, half>(sums, lane, first, owns);
    } else {
      sums[0] += __shfl_xor_sync(0xffffffffu, sums[0], Offset);
      owns = owns && !(lane & Offset);
      reduce_scatter_step<Offset / 2, 1>(sums, lane, first, owns);
    }
  }
}

}  // namespace detail

// Adds `sums` over the group and deals the columns out among its lanes.
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

}  // namespace warploom::cuda
