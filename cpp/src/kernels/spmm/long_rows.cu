#include "device/runtime.hpp"
#include "kernels/device/dependent_launch.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/spmm/long_rows.cuh"

namespace warploom::cuda {
namespace {

// So many threads that each adds up to eight pieces, which are loaded at once.
constexpr int columns_per_block = 8;
constexpr int threads_per_block = 1024;
constexpr int lanes_per_column = threads_per_block / columns_per_block;
constexpr int warps_per_block = threads_per_block / 32;

// Neighbouring threads read neighbouring columns of a piece. Which thread adds which pieces, in which order, is fixed.
template <class Value>
__global__ void __launch_bounds__(threads_per_block)
    add_long_rows_kernel(const segments_view<Value> segments, const strided_result<Value> C, const int k,
                         const unsigned tiles, const finishing_values<Value> by) {
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

}  // namespace

template <class Value>
void add_long_rows(const segments_view<Value>& segments, const strided_result<Value>& C, int k,
                   const finishing_values<Value>& by, cudaStream_t stream) {
  if (segments.num_long_rows == 0) return;
  const unsigned tiles = blocks_for(k, columns_per_block);
  launch_second(add_long_rows_kernel<Value>, dim3(segments.num_long_rows * tiles), threads_per_block, stream,
                launches_overlap(), segments, C, k, tiles, by);
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
