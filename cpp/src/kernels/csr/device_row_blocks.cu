// Row blocks made on the GPU: the same as on the host, although each begins where the one before ends. Where a block
// ends is known for every row that it may begin with. Within a tile of rows, all rows that the first block of the tile
// may begin with are followed at once to the next tile; one thread then goes from tile to tile, and the blocks of all
// tiles are written at once.
#include <algorithm>

#include "device/workspace.hpp"
#include "kernels/csr/device_row_blocks.hpp"
#include "kernels/device/warp.cuh"
#include "warploom/device.hpp"

namespace warploom::cuda {
namespace {

constexpr int tile_rows = 8192;
constexpr int threads = 1024;
constexpr int warps = threads / 32;
constexpr int rows_per_warp = tile_rows / warps;

// The end of the block that begins with a row, counted from the first row of its tile.
using block_end = std::uint16_t;
constexpr unsigned end_bits = 0x3fff;
constexpr unsigned cut_bit = 0x8000;   // the row is cut into segments
constexpr unsigned head_bit = 0x4000;  // a block does begin with the row
constexpr int most_rows = 4096;        // of a block
static_assert(tile_rows + most_rows <= static_cast<int>(end_bits));

struct block_task {
  const std::int32_t* indptr;
  int num_rows;
  int nnz_per_block;
  int threads_per_block;
  int max_rows;

  __device__ int length(int row) const { return __ldg(indptr + row + 1) - __ldg(indptr + row); }
  __device__ bool cuts(int row) const { return length(row) > longest_uncut_row(nnz_per_block); }
  __device__ int num_segments(int row) const {
    const std::int64_t segment = segment_length(length(row), nnz_per_block);
    return static_cast<int>((length(row) + segment - 1) / segment);
  }

  // The row after the block that begins with row `first`: the last that leaves the block small enough.
  __device__ int end_of_block(int first) const {
    const int begin = __ldg(indptr + first);
    int low = first + 1;
    for (int high = first + min(max_rows, num_rows - first); low < high;) {
      const int middle = low + (high - low + 1) / 2;
      if (__ldg(indptr + middle) - begin <= nnz_per_block) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }
};

// A position between tiles: where the first block of a tile begins, counted from the first row of the tile, and the
// numbers of blocks, cut rows and partial sums before it.
__device__ int4 after(const int4& before, const int4& tile) {
  return {tile.x, before.y + tile.y, before.z + tile.z, before.w + tile.w};
}

// One thread block for each tile. `exits` [tile][row]: what happens in the tile if its first block begins with the row.
__global__ void __launch_bounds__(threads)
    follow_blocks_kernel(const block_task task, block_end* __restrict__ ends, int4* __restrict__ exits) {
  __shared__ block_end end_of[tile_rows];
  const std::int64_t first_row = std::int64_t{blockIdx.x} * tile_rows;
  const int rows = static_cast<int>(min(std::int64_t{tile_rows}, task.num_rows - first_row));
  for (int i = static_cast<int>(threadIdx.x); i < rows; i += threads) {
    const int row = static_cast<int>(first_row) + i;
    const unsigned end = static_cast<unsigned>(task.end_of_block(row) - first_row) | (task.cuts(row) ? cut_bit : 0);
    end_of[i] = static_cast<block_end>(end);
    ends[row] = static_cast<block_end>(end);
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < task.max_rows && i <= rows; i += threads) {
    int4 exit{i, 0, 0, 0};
    while (exit.x < rows) {
      const unsigned end = end_of[exit.x];
      int blocks = 1;
      if (end & cut_bit) {
        blocks = task.num_segments(static_cast<int>(first_row) + exit.x);
        ++exit.z;
        exit.w += blocks;
      }
      exit.y += blocks;
      exit.x = static_cast<int>(end & end_bits);
    }
    exit.x -= rows;
    exits[std::int64_t{blockIdx.x} * task.max_rows + i] = exit;
  }
}

// One thread. `entries`: the position before each tile, and after the last.
__global__ void chain_tiles_kernel(const int4* __restrict__ exits, int num_tiles, int max_rows,
                                   int4* __restrict__ entries) {
  int4 at{0, 0, 0, 0};
  for (int tile = 0; tile < num_tiles; ++tile) {
    entries[tile] = at;
    at = after(at, __ldg(exits + std::int64_t{tile} * max_rows + at.x));
  }
  entries[num_tiles] = at;
}

// Called by whole warps: the block of the rows row .. end.
__device__ void write_block(const block_task& task, int row, int end, int4& at, int4* blocks) {
  int longest = 0;
  for (int r = row + static_cast<int>(lane_id()); r < end; r += 32) longest = max(longest, task.length(r));
  longest = warp_maximum(longest);
  const int bits = log2_threads_per_row(end - row, longest, task.threads_per_block);
  const int begin = __ldg(task.indptr + row);
  if (lane_id() == 0) blocks[at.y] = {row, begin, __ldg(task.indptr + end) - begin, (end - row) * 8 + bits};
  ++at.y;
}

// Called by whole warps: the segments of a cut row.
__device__ void write_segments(const block_task& task, int row, int4& at, int4* blocks, int4* cut_rows) {
  const int begin = __ldg(task.indptr + row);
  const int length = task.length(row);
  const auto segment = static_cast<int>(segment_length(length, task.nnz_per_block));
  const int count = task.num_segments(row);
  for (int i = static_cast<int>(lane_id()); i < count; i += 32) {
    const int first = i * segment;
    blocks[at.y + i] = {at.z, begin + first, min(segment, length - first), -1 - (at.w + i)};
  }
  if (lane_id() == 0) cut_rows[at.z] = {row, at.w, count, 0};
  at = after(at, {at.x, count, 1, count});
}

// One thread block for each tile.
__global__ void __launch_bounds__(threads)
    write_blocks_kernel(const block_task task, const block_end* __restrict__ ends, const int4* __restrict__ entries,
                        int4* __restrict__ blocks, int4* __restrict__ cut_rows) {
  __shared__ block_end end_of[tile_rows];
  __shared__ int4 counts_of_warps[warps];
  const std::int64_t first_row = std::int64_t{blockIdx.x} * tile_rows;
  const int rows = static_cast<int>(min(std::int64_t{tile_rows}, task.num_rows - first_row));
  for (int i = static_cast<int>(threadIdx.x); i < rows; i += threads) end_of[i] = ends[first_row + i];
  __syncthreads();
  int4 at = entries[blockIdx.x];
  if (threadIdx.x == 0) {
    for (int i = at.x; i < rows;) {
      const unsigned end = end_of[i];
      end_of[i] = static_cast<block_end>(end | head_bit);
      i = static_cast<int>(end & end_bits);
    }
  }
  __syncthreads();

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(lane_id());
  int4 counts{0, 0, 0, 0};
  for (int i = warp * rows_per_warp + lane; i < min(rows, (warp + 1) * rows_per_warp); i += 32) {
    const unsigned end = end_of[i];
    if (!(end & head_bit)) continue;
    const bool cut = end & cut_bit;
    const int added = cut ? task.num_segments(static_cast<int>(first_row) + i) : 1;
    counts = after(counts, {0, added, cut, cut ? added : 0});
  }
  counts = {0, group_sum<32>(counts.y), group_sum<32>(counts.z), group_sum<32>(counts.w)};
  if (lane == 0) counts_of_warps[warp] = counts;
  __syncthreads();
  for (int w = 0; w < warp; ++w) at = after(at, counts_of_warps[w]);

  for (int first = warp * rows_per_warp; first < (warp + 1) * rows_per_warp; first += 32) {
    const unsigned mine = first + lane < rows ? end_of[first + lane] : 0;
    for (unsigned heads = ballot((mine & head_bit) != 0); heads != 0; heads &= heads - 1) {
      const int head = __ffs(static_cast<int>(heads)) - 1;
      const unsigned end = from_lane(mine, head);
      const int row = static_cast<int>(first_row) + first + head;
      if (end & cut_bit) {
        write_segments(task, row, at, blocks, cut_rows);
      } else {
        write_block(task, row, static_cast<int>(first_row + (end & end_bits)), at, blocks);
      }
    }
  }
}

}  // namespace

device_row_blocks::device_row_blocks(const device_csr& matrix, int nnz_per_block, int threads_per_block,
                                     const device_allocator& allocate)
    : stream_(matrix.stream()) {
  static_assert(sizeof(row_block) == sizeof(int4) && sizeof(cut_row_sums) == sizeof(int4));
  const std::int64_t num_rows = matrix.num_rows();
  if (num_rows == 0) return;
  const block_task task{matrix.indptr32(), static_cast<int>(num_rows), nnz_per_block, threads_per_block,
                        max_rows_per_block(nnz_per_block, threads_per_block)};
  if (task.max_rows > most_rows) {
    throw error(error_kind::parameter, "nnz_per_block", -1, "nnz_per_block is too large to make row blocks on a GPU");
  }
  const auto num_tiles = static_cast<unsigned>((num_rows + tile_rows - 1) / tile_rows);
  const pooled_memory ends(num_rows * sizeof(block_end), stream_);
  const pooled_memory exits(std::size_t{num_tiles} * task.max_rows * sizeof(int4), stream_);
  const pooled_memory entries((num_tiles + std::size_t{1}) * sizeof(int4), stream_);
  follow_blocks_kernel<<<num_tiles, threads, 0, stream_>>>(task, ends.as<block_end>(), exits.as<int4>());
  check_launch("follow_blocks_kernel");
  chain_tiles_kernel<<<1, 1, 0, stream_>>>(exits.as<const int4>(), static_cast<int>(num_tiles), task.max_rows,
                                           entries.as<int4>());
  check_launch("chain_tiles_kernel");
  int4 totals{};
  copy_to_host(&totals, entries.as<const int4>() + num_tiles, sizeof(totals), stream_);
  blocks_ = {static_cast<std::size_t>(totals.y), allocate};
  cut_rows_ = {static_cast<std::size_t>(totals.z), allocate};
  num_partials_ = static_cast<std::size_t>(totals.w);
  write_blocks_kernel<<<num_tiles, threads, 0, stream_>>>(task, ends.as<const block_end>(), entries.as<const int4>(),
                                                          blocks_.data(), cut_rows_.data());
  check_launch("write_blocks_kernel");
}

row_blocks device_row_blocks::download() const {
  row_blocks result;
  result.blocks.resize(blocks_.size());
  result.cut_rows.resize(cut_rows_.size());
  result.num_partials = static_cast<std::int64_t>(num_partials_);
  copy_to_host(result.blocks.data(), blocks_.data(), blocks_.bytes(), stream_);
  copy_to_host(result.cut_rows.data(), cut_rows_.data(), cut_rows_.bytes(), stream_);
  return result;
}

}  // namespace warploom::cuda

namespace warploom {

row_blocks row_blocks_on_gpu(const device_csr& matrix, int nnz_per_block, int threads_per_block) {
  return cuda::device_row_blocks(matrix, nnz_per_block, threads_per_block, allocate_device_memory).download();
}

}  // namespace warploom
