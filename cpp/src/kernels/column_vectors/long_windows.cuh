// Windows of more segments than a warp adds up itself: a thread block of another kernel does, which starts while the
// product ends. Device code only.
#pragma once

#include "kernels/column_vectors/tensor_core.cuh"
#include "kernels/device/dependent_launch.cuh"

namespace warploom::cuda::column_vectors {

// Each adds every so many segments, and the first one what the others have.
constexpr int warps_of_long_window = 8;

template <class Value, int V, int N, int S, moved Moved, class Product>
__global__ void __launch_bounds__(32 * warps_of_long_window) long_windows_kernel(const Product product) {
  constexpr int fours = lane_sums<V, N>::fours;
  __shared__ float4 of_others[warps_of_long_window - 1][fours][32];
  const cuda::segments_view<Value>& A = product.A;
  const cuda::long_row window = A.long_rows[blockIdx.x];
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(cuda::lane_id());
  lane_sums<V, N> sums[S];
  cuda::wait_for_previous_kernel();
#pragma unroll 2
  for (int piece = warp; piece < window.pieces.count; piece += warps_of_long_window) {
    slot_sums<V, N, S>(A.slot(window.pieces.first + piece)).add_to(sums);
  }
#pragma unroll
  for (int s = 0; s < S; ++s) {
    if (s > 0) __syncthreads();  // the strip before is still read
#pragma unroll
    for (int i = 0; i < fours; ++i) {
      if (warp > 0) of_others[warp - 1][i][lane] = sums[s].four(i);
    }
    __syncthreads();
    if (warp > 0) continue;
    for (int other = 0; other < warps_of_long_window - 1; ++other) {
#pragma unroll
      for (int i = 0; i < fours; ++i) sums[s].add_four(i, of_others[other][i][lane]);
    }
  }
  if (warp > 0) return;
  store_window<Value, V, N, S, Moved>(sums, product, window.row, lane_columns<V, N>(product.k));
}

// Enqueues the sums of such windows, if there are any, after the kernel that left them.
template <class Value, int V, int N, int S, moved Moved, class Product>
void add_long_windows(const Product& product, cudaStream_t stream) {
  if (product.A.num_long_rows == 0) return;
  constexpr int tile = 8 * V * N;
  const dim3 blocks(product.A.num_long_rows, static_cast<unsigned>((product.k + tile - 1) / tile));
  cuda::launch_second(long_windows_kernel<Value, V, N, S, Moved, Product>, blocks, 32 * warps_of_long_window, stream,
                      cuda::launches_overlap(), product);
}

}  // namespace warploom::cuda::column_vectors
