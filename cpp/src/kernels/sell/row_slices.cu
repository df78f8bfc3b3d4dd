#include <algorithm>
#include <bit>

#include "device/algorithms.hpp"
#include "device/workspace.hpp"
#include "kernels/device/warp.cuh"
#include "kernels/sell/row_slices.hpp"

namespace warploom::cuda {
namespace {

constexpr int threads_per_block = 256;
constexpr int warps_per_block = threads_per_block / 32;

// Ascending keys: by window, then by decreasing length.
template <class Key>
__global__ void __launch_bounds__(threads_per_block)
    length_keys_kernel(const std::int32_t* __restrict__ indptr, unsigned num_rows, unsigned window, int longest,
                       int length_bits, Key* __restrict__ keys, std::int32_t* __restrict__ rows) {
  const unsigned row = blockIdx.x * threads_per_block + threadIdx.x;
  if (row >= num_rows) return;
  const int length = indptr[row + 1] - indptr[row];
  keys[row] = static_cast<Key>(row / window) << length_bits | static_cast<Key>(longest - length);
  rows[row] = static_cast<std::int32_t>(row);
}

template <class Key>
void sort_rows(const device_csr& matrix, unsigned window, int length_bits, int bits, std::int32_t* sorted) {
  const cudaStream_t stream = matrix.stream();
  const auto num_rows = static_cast<std::size_t>(matrix.num_rows());
  const pooled_memory keys(2 * num_rows * sizeof(Key), stream);
  const pooled_memory rows(num_rows * sizeof(std::int32_t), stream);
  length_keys_kernel<Key><<<blocks_for(matrix.num_rows()), threads_per_block, 0, stream>>>(
      matrix.indptr32(), static_cast<unsigned>(num_rows), window, static_cast<int>(matrix.summary().longest_row),
      length_bits, keys.as<Key>(), rows.as<std::int32_t>());
  check_launch("length_keys_kernel");
  sort_pairs(keys.as<const Key>(), keys.as<Key>() + num_rows, rows.as<const std::int32_t>(), sorted, matrix.num_rows(),
             bits, stream);
}

// `Group` threads look at the rows of a slice.
template <int Group>
__global__ void __launch_bounds__(threads_per_block)
    slice_widths_kernel(const std::int32_t* __restrict__ indptr, const std::int32_t* __restrict__ row_ids,
                        std::int64_t num_rows, std::int64_t num_slices, std::int64_t height, int multiple,
                        std::int32_t* __restrict__ widths, slice_totals* __restrict__ totals) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  const std::int64_t slice = thread / Group;
  const int in_group = static_cast<int>(thread % Group);
  const std::int64_t first = slice * height;
  const std::int64_t end = min(first + height, num_rows);  // no rows past the last slice
  int width = 0;
  bool moved = false;
#pragma unroll 4
  for (std::int64_t p = first + in_group; p < end; p += Group) {
    const std::int64_t row = row_ids ? row_ids[p] : p;
    moved |= row != p;
    width = max(width, indptr[row + 1] - indptr[row]);
  }
#pragma unroll
  for (int offset = Group / 2; offset > 0; offset /= 2) width = max(width, exchange(width, offset));
  width = (width + multiple - 1) / multiple * multiple;
  const bool counts = slice < num_slices && in_group == 0;
  if (counts && widths) widths[slice] = width;

  // One addition to the totals for each block: they have one address.
  __shared__ slice_totals of_warps[warps_per_block];
  const unsigned long long columns = group_sum<32>(counts ? static_cast<unsigned long long>(width) : 0ull);
  const int widest = warp_maximum(counts ? width : 0);
  const int narrowest = warp_minimum(counts ? width : 0x7fffffff);
  const bool any_moved = any_lane(moved);
  if (threadIdx.x % 32 == 0) {
    slice_totals& mine = of_warps[threadIdx.x / 32];
    mine.columns = columns;
    mine.widest = widest;
    mine.narrower_than_any = 0x7fffffffu - narrowest;
    mine.moved = any_moved;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  slice_totals sum = of_warps[0];
  for (int w = 1; w < warps_per_block; ++w) {
    sum.columns += of_warps[w].columns;
    sum.widest = max(sum.widest, of_warps[w].widest);
    sum.narrower_than_any = max(sum.narrower_than_any, of_warps[w].narrower_than_any);
    sum.moved |= of_warps[w].moved;
  }
  atomicAdd(&totals->columns, sum.columns);
  atomicMax(&totals->widest, sum.widest);
  atomicMax(&totals->narrower_than_any, sum.narrower_than_any);
  if (sum.moved) totals->moved = 1;
}

}  // namespace

device_array<std::int32_t> rows_by_length(const device_csr& matrix, std::int64_t window,
                                          const device_allocator& allocate) {
  device_array<std::int32_t> sorted(matrix.num_rows(), allocate);
  if (matrix.num_rows() == 0) return sorted;
  const auto rows_of_window = static_cast<unsigned>(std::min(window, matrix.num_rows()));
  const std::int64_t windows = (matrix.num_rows() + rows_of_window - 1) / rows_of_window;
  const int length_bits = bits_for(matrix.summary().longest_row - matrix.summary().shortest_row);
  const int bits = length_bits + (windows > 1 ? bits_for(windows - 1) : 0);
  if (bits <= 32) {
    sort_rows<std::uint32_t>(matrix, rows_of_window, length_bits, bits, sorted.data());
  } else {
    sort_rows<std::uint64_t>(matrix, rows_of_window, length_bits, bits, sorted.data());
  }
  return sorted;
}

void measure_slices(const device_csr& matrix, const slice_shape& shape, std::int32_t* widths, slice_totals* totals) {
  const cudaStream_t stream = matrix.stream();
  WARPLOOM_CUDA_CHECK(cudaMemsetAsync(totals, 0, sizeof(slice_totals), stream));
  const std::int64_t num_slices = (matrix.num_rows() + shape.height - 1) / shape.height;
  if (num_slices == 0) return;
  const auto launch = [&]<int Group>(std::integral_constant<int, Group>) {
    slice_widths_kernel<Group><<<blocks_for(num_slices * Group), threads_per_block, 0, stream>>>(
        matrix.indptr32(), shape.row_ids, matrix.num_rows(), num_slices, shape.height, shape.multiple, widths, totals);
  };
  // Four rows and more for a thread.
  if (shape.height >= 32) {
    launch(std::integral_constant<int, 8>{});
  } else if (shape.height >= 8) {
    launch(std::integral_constant<int, 2>{});
  } else {
    launch(std::integral_constant<int, 1>{});
  }
  check_launch("slice_widths_kernel");
}

}  // namespace warploom::cuda
