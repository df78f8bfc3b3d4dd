#include "kernels/csr/device_merge_tiles.hpp"
#include "kernels/device/path_cuts.cuh"
#include "kernels/device/warp.cuh"

namespace warploom::cuda {
namespace {

constexpr int threads_per_block = 256;

// Row i takes the items indptr[i] + i .. indptr[i + 1] + i: its nonzeros, and then its end.
struct merge_path {
  std::int64_t num_items;
  int size;
  const std::int32_t* indptr;
  int num_rows;

  __device__ std::int64_t begin(int row) const { return std::int64_t{__ldg(indptr + row)} + row; }

  // The last row that does not begin past an item. Called by whole warps; each step probes 32 places at once.
  __device__ int row_at(std::int64_t item) const {
    int first = 0;
    for (int end = num_rows; end - first > 1;) {
      const int step = (end - first + 31) / 32;
      const std::int64_t probe = first + std::int64_t{lane_id()} * step;
      const unsigned not_past = ballot(probe < end && begin(static_cast<int>(min(probe, std::int64_t{end}))) <= item);
      first += (__popc(not_past) - 1) * step;
      end = min(end - first, step) + first;
    }
    return first;
  }

  __device__ void find_steps(std::int64_t first, int count, path_step* steps) const {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += path_threads) steps[i] = cut_here;
    __syncthreads();
    for (std::int64_t row = row_at(first) + std::int64_t{threadIdx.x}; row < num_rows; row += path_threads) {
      const std::int64_t from = begin(static_cast<int>(row)) - first;
      if (from >= count) break;
      const int length = __ldg(indptr + row + 1) - __ldg(indptr + row);
      const int shortens = length <= size / 4 ? length : 0;  // where a piece would end in the row
      for (int k = from < 0 ? static_cast<int>(min(-from, std::int64_t{shortens} + 1)) : 0; k <= shortens; ++k) {
        if (from + k < count) steps[from + k] = static_cast<path_step>(k);
      }
    }
  }
};

// Rows that have ended before an item.
__device__ int rows_before(const std::int32_t* __restrict__ indptr, int num_rows, std::int64_t item) {
  int low = 0;
  for (int high = num_rows; low < high;) {
    const int middle = low + (high - low) / 2;
    if (std::int64_t{__ldg(indptr + middle + 1)} + middle < item) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

__global__ void __launch_bounds__(threads_per_block)
    write_tiles_kernel(const std::int32_t* __restrict__ indptr, int num_rows, const std::int64_t* __restrict__ begins,
                       int num_tiles, int4* __restrict__ tiles, int2* __restrict__ cuts) {
  const int tile = static_cast<int>(blockIdx.x * threads_per_block + threadIdx.x);
  if (tile >= num_tiles) return;
  const std::int64_t begin = begins[tile];
  const std::int64_t end = begins[tile + 1];
  const int row = rows_before(indptr, num_rows, begin);
  const int end_row = rows_before(indptr, num_rows, end);
  const auto nonzero = static_cast<int>(begin - row);
  const auto end_nonzero = static_cast<int>(end - end_row);
  tiles[tile] = {row, end_row, nonzero, end_nonzero};
  if (cuts == nullptr) return;
  int2 mine{-1, -1};
  const int row_begin = __ldg(indptr + row);
  if (nonzero != row_begin) mine.x = piece_at(begins, num_tiles, std::int64_t{row_begin} + row);
  if (end_nonzero != __ldg(indptr + end_row)) {
    mine.y = piece_at(begins, num_tiles, std::int64_t{__ldg(indptr + end_row + 1)} + end_row);
  }
  cuts[tile] = mine;
}

}  // namespace

device_merge_tiles::device_merge_tiles(const device_csr& matrix, int size, const device_allocator& allocate)
    : stream_(matrix.stream()) {
  static_assert(sizeof(merge_tile) == sizeof(int4) && sizeof(merge_cuts) == sizeof(int2));
  const auto num_rows = static_cast<int>(matrix.num_rows());
  const path_pieces pieces = cut_path(merge_path{num_rows + matrix.nnz(), size, matrix.indptr32(), num_rows}, stream_);
  if (pieces.size == 0) return;
  tiles_ = {static_cast<std::size_t>(pieces.size), allocate};
  if (pieces.cuts_rows) cuts_ = {static_cast<std::size_t>(pieces.size), allocate};
  const auto blocks = static_cast<unsigned>((pieces.size + threads_per_block - 1) / threads_per_block);
  write_tiles_kernel<<<blocks, threads_per_block, 0, stream_>>>(
      matrix.indptr32(), num_rows, pieces.begins.data(), static_cast<int>(pieces.size), tiles_.data(), cuts_.data());
  check_launch("write_tiles_kernel");
}

merge_tiles device_merge_tiles::download() const {
  merge_tiles result;
  result.tiles.resize(tiles_.size());
  result.cuts.resize(cuts_.size());
  copy_to_host(result.tiles.data(), tiles_.data(), tiles_.bytes(), stream_);
  copy_to_host(result.cuts.data(), cuts_.data(), cuts_.bytes(), stream_);
  return result;
}

}  // namespace warploom::cuda

namespace warploom {

merge_tiles merge_tiles_on_gpu(const device_csr& matrix, int size) {
  return cuda::device_merge_tiles(matrix, size, allocate_device_memory).download();
}

}  // namespace warploom
