// The kernel of products with rows packed into warps. All entries of a warp are loaded at once, from addresses that are
// known without a load; the lanes of a row are summed by a segmented scan, so that rows of any lengths share a warp.
// Two dependent memory accesses (entries, x) precede the sums, as for padded rows, and no lane waits for a longer row.
//
// SpMV and SpMM are the same but for the number of columns of B whose sums a lane holds at a time. Device code only.
#pragma once

#include "kernels/device/finish.cuh"
#include "kernels/device/last_arrival.cuh"
#include "kernels/device/values.cuh"
#include "kernels/device/vector.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/packed_csr/device_packed.hpp"

namespace warploom::cuda {

template <class Value>
struct packed_view {
  using sum_type = sum_type_t<Value>;
  unsigned num_warps;
  unsigned num_empty_rows;
  const std::uint32_t* lanes;
  const std::int32_t* indices;
  const Value* data;
  const int4* pieces;  // packed_segment
  const std::int32_t* empty_rows;
  sum_type* partial;  // [columns][num_partials]
  unsigned* arrived;  // [tiles of columns][num_partials]: the first one of each row counts; zero between runs
  int num_partials;
};

// Columns of B and C, or a tile of them, in column-major order.
template <class Value>
struct packed_operands {
  const Value* x;
  Value* y;
  std::int64_t ldx;
  std::int64_t ldy;
  int columns;
};

// V consecutive elements at once.
template <int V, class T>
__device__ __forceinline__ vector<T, V> load_entries(const T* from) {
  constexpr int bytes = sizeof(T) * V;
  vector<T, V> result;
  if constexpr (bytes == 2) {
    *reinterpret_cast<unsigned short*>(&result) = __ldg(reinterpret_cast<const unsigned short*>(from));
  } else if constexpr (bytes <= 16) {
    result = load<T, V>(from);
  } else {
    constexpr int half = V / 2;
    const auto low = load<T, half>(from);
    const auto high = load<T, half>(from + half);
#pragma unroll
    for (int i = 0; i < half; ++i) {
      result.lane[i] = low.lane[i];
      result.lane[half + i] = high.lane[i];
    }
  }
  return result;
}

// Stores one thread block's partial sums of a row of several thread blocks; the warp that finishes last adds them all,
// always in the same order. Called by whole warps.
template <int T, class Value, class Finish>
__device__ __forceinline__ void finish_block(const packed_view<Value>& A, const int4& piece,
                                             sum_type_t<Value> (&sums)[T], const packed_operands<Value>& tile,
                                             Finish& finish) {
  const int first = piece.y, count = piece.z;
  const auto own = static_cast<int>(static_cast<unsigned>(piece.w) >> 8);
  // What lane 0 stores before it counts its warp is seen by the warp that counts last.
#pragma unroll
  for (int t = 0; t + 1 < T; ++t) {
    if (lane_id() == 0) __stcg(A.partial + std::int64_t{t} * A.num_partials + first + own, sums[t]);
  }
  sum_type_t<Value>* const last_column = A.partial + std::int64_t{T - 1} * A.num_partials + first;
  if (!warp_arrives_last<4>(last_column, own, count, A.arrived + first, sums[T - 1])) return;
#pragma unroll
  for (int t = 0; t < T; ++t) {
    if (t + 1 < T) {
      sums[t] = share_of_partial_sums<32, 4>(A.partial + std::int64_t{t} * A.num_partials + first, count, lane_id());
    }
    const sum_type_t<Value> total = group_sum<32>(sums[t]);
    if (lane_id() == 0 && t < tile.columns) finish.store(tile.y + t * tile.ldy, piece.x, total);
  }
}

// The product with a tile of at most T columns, by one thread block of those that the warps of the matrix take.
template <int T, int V, int S, bool Cuts, class Value, class Finish>
__device__ __forceinline__ void packed_segmented_sum(const packed_view<Value>& A, const packed_operands<Value>& tile,
                                                     unsigned block, Finish& finish) {
  static_assert(!Cuts || !Finish::has_end, "rows that are cut are stored in several places, after which threads leave");
  using sum_type = sum_type_t<Value>;
  const unsigned warp = (block * blockDim.x + threadIdx.x) / 32;
  const unsigned lane = threadIdx.x % 32;
  __shared__ sum_type segment_sums[Cuts ? packed_warps_per_block : 1][T];
  int4 piece{};
  bool holds_segment = false;
  const auto store = [&](auto row, const sum_type(&sums)[T]) {
#pragma unroll
    for (int t = 0; t < T; ++t) {
      if (T == 1 || t < tile.columns) finish.store(tile.y + t * tile.ldy, row, sums[t]);
    }
  };
  if (warp >= A.num_warps) {
    const unsigned i = (warp - A.num_warps) * 32 + lane;
    const sum_type zeros[T] = {};
    if (i < A.num_empty_rows) store(A.empty_rows[i], zeros);
  } else {
    const std::size_t first = std::size_t{warp} * (32 * S) + lane;
    std::uint32_t meaning[S];
    vector<std::int32_t, V> columns[S];
    vector<Value, V> values[S];
#pragma unroll
    for (int s = 0; s < S; ++s) columns[s] = load_entries<V>(A.indices + (first + 32 * s) * V);
#pragma unroll
    for (int s = 0; s < S; ++s) values[s] = load_entries<V>(A.data + (first + 32 * s) * V);
#pragma unroll
    for (int s = 0; s < S; ++s) meaning[s] = __ldg(A.lanes + first + 32 * s);
    keep_load_order();
    const Value* x[T];  // behind the last column: that one again
#pragma unroll
    for (int t = 0; t < T; ++t) x[t] = tile.x + (T == 1 ? 0 : min(t, tile.columns - 1)) * tile.ldx;
    Value x_values[S][V][T];
#pragma unroll
    for (int s = 0; s < S; ++s) {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const std::int32_t column = columns[s].lane[v];
#pragma unroll
        for (int t = 0; t < T; ++t) {
          // A place without an entry adds 0 * 0.
          x_values[s][v][t] = column >= 0 ? read_only(x[t] + column) : Value(0);
        }
      }
    }
    if constexpr (Cuts) {  // a segment begins its warp
      const std::uint32_t begins_with = from_lane(meaning[0], 0);
      holds_segment = (begins_with & packed_cut) != 0;
      if (holds_segment) piece = __ldg(A.pieces + (begins_with & packed_target));
    }

    sum_type sums[S][T];
#pragma unroll
    for (int s = 0; s < S; ++s) {
#pragma unroll
      for (int t = 0; t < T; ++t) {
        sums[s][t] = 0;
#pragma unroll
        for (int v = 0; v < V; ++v) sums[s][t] += widen(values[s].lane[v]) * widen(x_values[s][v][t]);
      }
    }
    unsigned heads[S];
#pragma unroll
    for (int s = 0; s < S; ++s) heads[s] = ballot((meaning[s] & packed_head) != 0);

    sum_type carried[T] = {};  // of the row that continues from the step before
#pragma unroll
    for (int s = 0; s < S; ++s) {
#pragma unroll
      for (int t = 0; t < T; ++t) {
        if (lane == 0 && !(heads[s] & 1u)) sums[s][t] += carried[t];
        sums[s][t] = segmented_scan(sums[s][t], heads[s]);
        if (s + 1 < S) carried[t] = from_lane(sums[s][t], 31);
      }
      const bool last_lane_ends = s + 1 == S || (heads[s + 1 < S ? s + 1 : s] & 1u);
      const unsigned ends = heads[s] >> 1 | (last_lane_ends ? 0x80000000u : 0u);
      const std::uint32_t target = meaning[s] & packed_target;
      if ((ends >> lane & 1u) != 0 && target != packed_target) {
        if (Cuts && (meaning[s] & packed_cut)) {
#pragma unroll
          for (int t = 0; t < T; ++t) segment_sums[threadIdx.x / 32][t] = sums[s][t];
        } else {
          store(target, sums[s]);
        }
      }
    }
  }
  if constexpr (Cuts) {
    __syncthreads();
    const unsigned place = static_cast<unsigned>(piece.w);
    if (!holds_segment || !(place & 1u)) return;
    sum_type totals[T] = {};
    for (unsigned w = place >> 4 & 15u; w <= threadIdx.x / 32; ++w) {
#pragma unroll
      for (int t = 0; t < T; ++t) totals[t] += segment_sums[w][t];
    }
    if (piece.z > 1) {
      finish_block(A, piece, totals, tile, finish);
    } else if (lane == 0) {
      store(piece.x, totals);
    }
  }
  finish.end();
}

// How many warps a thread block has for so many in all: small thread blocks distribute few warps over all
// multiprocessors; the segments of a row need full ones.
inline unsigned packed_block_warps(bool cuts, std::size_t warps) {
  return cuts || warps > 1024 ? packed_warps_per_block : 4;
}

// The warps of a matrix, those that clear rows without entries included.
inline std::size_t packed_warps(const device_packed& matrix) {
  return matrix.num_warps() + (matrix.num_empty_rows() + 31) / 32;
}

template <class Value>
packed_view<Value> view_packed(const device_packed& matrix, sum_type_t<Value>* partial, unsigned* arrived) {
  return {static_cast<unsigned>(matrix.num_warps()),
          static_cast<unsigned>(matrix.num_empty_rows()),
          matrix.lanes(),
          matrix.indices(),
          matrix.values<Value>(),
          reinterpret_cast<const int4*>(matrix.pieces()),
          matrix.empty_rows(),
          partial,
          arrived,
          matrix.num_partials()};
}

}  // namespace warploom::cuda
