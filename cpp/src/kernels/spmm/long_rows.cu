#include <algorithm>
#include <bit>

#include "device/runtime.hpp"
#include "kernels/device/dependent_launch.cuh"
#include "kernels/device/vector.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/spmm/long_rows.cuh"

namespace warploom::cuda {
namespace {

// So many threads that each adds up to eight pieces, which are loaded at once.
constexpr int columns_per_block = 8;
constexpr int threads_per_block = 1024;
constexpr int lanes_per_column = threads_per_block / columns_per_block;
constexpr int warps_per_block = threads_per_block / 32;

// Adds up long row `blockIdx.x / tiles`. Neighbouring threads read neighbouring columns of a piece. Which thread adds
// which pieces, in which order, is fixed.
template <class Value>
__device__ __forceinline__ void add_row_of_block(const segments_view<Value>& segments, const strided_result<Value>& C,
                                                 int k, unsigned tiles, const finishing_values<Value>& by) {
  using sum_type = sum_type_t<Value>;
  __shared__ sum_type of_warps[columns_per_block][warps_per_block];
  const long_row row = segments.long_rows[blockIdx.x / tiles];
  const int first_column = static_cast<int>(blockIdx.x % tiles) * columns_per_block;
  const int lane = threadIdx.x / columns_per_block, place = threadIdx.x % columns_per_block;
  const int warp = threadIdx.x / 32;
  wait_for_previous_kernel();
  sum_type sum = 0;
  if (first_column + place < k) {
    const sum_type* const slots = segments.slot(row.pieces.first) + first_column + place;
#pragma unroll 8
    for (int piece = lane; piece < row.pieces.count; piece += lanes_per_column) {
      sum += __ldcg(slots + std::int64_t{piece} * segments.workspace_columns);
    }
  }
  sum = interleaved_sum<columns_per_block>(sum);
  if (lane_id() < columns_per_block) of_warps[place][warp] = sum;
  __syncthreads();
  if (warp >= columns_per_block) return;
  sum = group_sum<warps_per_block>(of_warps[warp][lane_id()]);
  const int column = first_column + warp;
  if (lane_id() > 0 || column >= k) return;
  Value* const result = C.data + row.row * C.row_stride + column * C.column_stride;
  *result = narrow<Value>(by(sum, result, column));
}

// How a warp reads pieces: lanes side by side on 16 bytes of a piece each, as many as the columns need; the others read
// other pieces.
template <class Value>
struct piece_lanes {
  static constexpr int columns = 16 / static_cast<int>(sizeof(sum_type_t<Value>));  // of a lane

  int bits;
  unsigned tiles;

  explicit piece_lanes(int k)
      : bits(std::min(5, static_cast<int>(std::bit_width(static_cast<unsigned>((k - 1) / columns))))),
        tiles(blocks_for(k, columns << bits)) {}
};

// Adds up row `i / tiles` of those of warps, in the columns of one tile.
template <class Value>
__device__ __forceinline__ void add_row_of_warp(const segments_view<Value>& segments, const strided_result<Value>& C,
                                                int k, unsigned i, const piece_lanes<Value>& lanes,
                                                const finishing_values<Value>& by) {
  using sum_type = sum_type_t<Value>;
  constexpr int W = piece_lanes<Value>::columns;
  if (i / lanes.tiles >= segments.num_rows_of_warps) return;
  const long_row row = segments.rows_of_warps[i / lanes.tiles];
  const int lane = static_cast<int>(lane_id());
  const int first = ((static_cast<int>(i % lanes.tiles) << lanes.bits) + (lane & ((1 << lanes.bits) - 1))) * W;
  wait_for_previous_kernel();
  vector<sum_type, W> sums{};
  const sum_type* const slots = segments.slot(row.pieces.first) + first;
  const auto piece_of = [&](int piece) { return slots + std::int64_t{piece} * segments.workspace_columns; };
  const int step = 32 >> lanes.bits;
  if (first + W <= k) {
#pragma unroll 8
    for (int piece = lane >> lanes.bits; piece < row.pieces.count; piece += step) {
      const auto of_piece = load_from_others<sum_type, W>(piece_of(piece));
#pragma unroll
      for (int v = 0; v < W; ++v) sums.lane[v] += of_piece.lane[v];
    }
  } else {
    for (int piece = lane >> lanes.bits; piece < row.pieces.count; piece += step) {
#pragma unroll
      for (int v = 0; v < W; ++v) sums.lane[v] += first + v < k ? __ldcg(piece_of(piece) + v) : sum_type(0);
    }
  }
#pragma unroll
  for (int v = 0; v < W; ++v) sums.lane[v] = interleaved_sum(sums.lane[v], 1u << lanes.bits);
  if (lane >> lanes.bits != 0) return;
#pragma unroll
  for (int v = 0; v < W; ++v) {
    if (first + v >= k) return;
    Value* const result = C.data + row.row * C.row_stride + (first + v) * C.column_stride;
    *result = narrow<Value>(by(sums.lane[v], result, first + v));
  }
}

// The first thread blocks take a row of many pieces each, and 8 columns; each warp of the others one of few.
template <class Value>
__global__ void __launch_bounds__(threads_per_block)
    add_long_rows_kernel(const segments_view<Value> segments, const strided_result<Value> C, const int k,
                         const unsigned tiles, const piece_lanes<Value> lanes, const finishing_values<Value> by) {
  const unsigned before = segments.num_long_rows * tiles;
  if (blockIdx.x < before) {
    add_row_of_block(segments, C, k, tiles, by);
  } else {
    add_row_of_warp(segments, C, k, (blockIdx.x - before) * warps_per_block + threadIdx.x / 32, lanes, by);
  }
}

}  // namespace

template <class Value>
void add_long_rows(const segments_view<Value>& segments, const strided_result<Value>& C, int k,
                   const finishing_values<Value>& by, cudaStream_t stream) {
  if (segments.num_long_rows + segments.num_rows_of_warps == 0) return;
  const unsigned tiles = blocks_for(k, columns_per_block);
  const piece_lanes<Value> lanes(k);
  const unsigned blocks =
      segments.num_long_rows * tiles + blocks_for(segments.num_rows_of_warps * lanes.tiles, warps_per_block);
  launch_second(add_long_rows_kernel<Value>, dim3(blocks), threads_per_block, stream, launches_overlap(), segments, C,
                k, tiles, lanes, by);
}

template void add_long_rows(const segments_view<float>&, const strided_result<float>&, int,
                            const finishing_values<float>&, cudaStream_t);
template void add_long_rows(const segments_view<double>&, const strided_result<double>&, int,
                            const finishing_values<double>&, cudaStream_t);
template void add_long_rows(const segments_view<__half>&, const strided_result<__half>&, int,
                            const finishing_values<__half>&, cudaStream_t);
template void add_long_rows(const segments_view<__nv_bfloat16>&, const strided_result<__nv_bfloat16>&, int,
                            const finishing_values<__nv_bfloat16>&, cudaStream_t);

}  // namespace warploom::cuda
