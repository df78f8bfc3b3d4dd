// The two kernels of column panels, shared_x. Device code only.
//
// `sum_panels_kernel`: a thread block loads a panel of x into shared memory and streams the tiles of its parts. A lane
// takes 8 neighbouring places of a tile of 256; bits say where rows end. Rows that began in earlier lanes get the
// partial sums of those by a segmented scan over the warp. The sums of the rows that end in a tile are collected in
// shared memory and written next to each other.
//
// `add_panels_kernel` adds the sums of a row in panel order and writes y. Two launches, because otherwise
// the last thread block to finish would do alone what all of them do at once here: all thread blocks finish at about
// the same time, and each row waits for as many of them as there are panels.
#pragma once

#include <cstdint>

#include "kernels/column_panels/bank_order.hpp"
#include "kernels/device/async_copy.cuh"
#include "kernels/device/dependent_launch.cuh"
#include "kernels/device/values.cuh"
#include "kernels/device/warp.cuh"

namespace warploom::cuda {

constexpr int sum_panels_warps = 16;
constexpr int sum_panels_threads = 32 * sum_panels_warps;
constexpr int add_panels_threads = 256;
constexpr int staged_sums = 128;  // sums of a tile that a warp collects at a time
constexpr int prefetched_tiles = 4;

template <class Value>
struct panels_view {
  std::int32_t num_cols;
  std::int32_t panel_columns;
  const std::int32_t* share_parts;
  const int4* parts;  // panel_part
  const std::int32_t* first_sums;
  const uint4* columns;
  const std::uint16_t* lanes;
  const uint4* values;
  sum_type_t<Value>* sums;
  sum_type_t<Value>* carries;

  // The panel, and the zero that padding refers to.
  __host__ __device__ unsigned panel_bytes() const {
    return (static_cast<unsigned>(panel_columns + 1) * sizeof(Value) + 15) / 16 * 16;
  }
  __host__ __device__ unsigned shared_bytes() const {
    return panel_bytes() + sum_panels_warps * staged_sums * sizeof(sum_type_t<Value>);
  }
};

// A lane's part of a tile.
template <class Value>
struct lane_tile {
  static constexpr int vectors = sizeof(Value) / 2;  // 8 values in loads of 16 bytes

  uint4 columns;
  uint4 values[vectors];
  unsigned described;  // unpacked where it is used: here that would wait for the load

  __device__ __forceinline__ void load(const panels_view<Value>& A, int tile, int lane) {
    const std::int64_t at = std::int64_t{tile} * 32 + lane;
    columns = __ldcs(A.columns + at);
#pragma unroll
    for (int q = 0; q < vectors; ++q) values[q] = __ldcs(A.values + (std::int64_t{tile} * vectors + q) * 32 + lane);
    described = __ldcs(A.lanes + at);
  }

  // Bit j: place j is the last of its row.
  __device__ __forceinline__ unsigned ends() const { return described & 0xffu; }
  // Rows that end in the lanes before.
  __device__ __forceinline__ int rows_before() const { return static_cast<int>(described >> 8); }

  __device__ __forceinline__ unsigned column(int j) const {
    const unsigned pair = j < 2 ? columns.x : j < 4 ? columns.y : j < 6 ? columns.z : columns.w;
    return j % 2 == 0 ? pair & 0xffffu : pair >> 16;
  }
  __device__ __forceinline__ Value value(int j) const { return reinterpret_cast<const Value*>(values)[j]; }
};

// Starts to copy the panel's part of x. Without alignment to 16 bytes, or past the last whole 16 bytes, copies it.
template <class Value>
__device__ __forceinline__ void load_panel(const panels_view<Value>& A, int panel, const Value* x, Value* shared_x) {
  const int first = panel * A.panel_columns;
  const int count = min(A.panel_columns, A.num_cols - first);
  constexpr int per_vector = 16 / sizeof(Value);
  x += first;
  int copied = 0;
  if (reinterpret_cast<std::uintptr_t>(x) % 16 == 0) {
    copied = count / per_vector * per_vector;
#pragma unroll 4
    for (int i = threadIdx.x * per_vector; i < copied; i += sum_panels_threads * per_vector) {
      copy_16_bytes_async(shared_x + bank_order<sizeof(Value)>(i), x + i);
    }
  }
#pragma unroll 4
  for (int i = copied + threadIdx.x; i < count; i += sum_panels_threads) {
    shared_x[bank_order<sizeof(Value)>(i)] = x[i];
  }
}

// The matrix comes from memory while the panel of x comes from the L2.
template <class Value>
__device__ __forceinline__ void prefetch_tiles(const panels_view<Value>& A, int begin, int end, int lane) {
  const int tiles = min(end - begin, prefetched_tiles);
  if (tiles <= 0) return;
  constexpr int vectors = lane_tile<Value>::vectors;
  if (lane == 0) prefetch_to_l2(A.values + std::int64_t{begin} * vectors * 32, tiles * vectors * 32 * sizeof(uint4));
  if (lane == 1) prefetch_to_l2(A.columns + std::int64_t{begin} * 32, tiles * 32 * sizeof(uint4));
  if (lane == 2) prefetch_to_l2(A.lanes + std::int64_t{begin} * 32, tiles * 32 * sizeof(std::uint16_t));
}

// Gives `tail`, the sum of a lane after its last row end, to the lanes after it up to the next that has a row end.
// Returns the partial sum of this lane's first row from the lanes before; `carry` does the same from tile to tile.
template <class Sum>
__device__ __forceinline__ Sum sum_before_lane(Sum tail, bool has_end, Sum& carry, int lane) {
  const unsigned with_end = ballot(has_end);
  if (lane == 0 && !has_end) tail += carry;
  tail = segmented_scan_by_votes(tail, with_end, lane);  // the row open after a lane began in the last one with an end
  const Sum left = from_lane_before(tail);
  const Sum before = lane == 0 ? carry : left;
  carry = from_lane(tail, 31);
  return before;
}

// Writes the sums of the rows that end in this lane to `staged`, from `slot` on, as far as it reaches.
template <class Sum>
__device__ __forceinline__ void stage_sums(const Sum (&row_sums)[8], unsigned ends, int slot, Sum* staged) {
  unsigned offset = slot * static_cast<int>(sizeof(Sum));  // in bytes; wraps round below 0
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const bool ends_here = ends >> j & 1;  // selected, not branched on: nearly every lane has ends of its own
    if (ends_here && offset < staged_sums * sizeof(Sum)) {
      *reinterpret_cast<Sum*>(reinterpret_cast<char*>(staged) + offset) = row_sums[j];
    }
    offset += ends_here ? sizeof(Sum) : 0;
  }
}

// Multiplies a tile and writes the sums of the rows that end in it from `sums` on; returns how many.
template <class Value>
__device__ __forceinline__ int sum_tile(const lane_tile<Value>& tile, const Value* shared_x, sum_type_t<Value>* staged,
                                        sum_type_t<Value>* sums, sum_type_t<Value>& carry, int lane) {
  using sum_type = sum_type_t<Value>;
  sum_type gathered[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) gathered[j] = widen(shared_x[tile.column(j)]);
  const unsigned ends = tile.ends();
  sum_type row_sums[8];
  sum_type running = 0;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    running += widen(tile.value(j)) * gathered[j];
    row_sums[j] = running;
    if (ends >> j & 1) running = 0;
  }
  const sum_type before = sum_before_lane(running, ends != 0, carry, lane);
  const unsigned first_end = ends & (0u - ends);
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    if (first_end >> j & 1) row_sums[j] += before;
  }

  const int total = from_lane(tile.rows_before() + __popc(ends), 31);
  for (int first = 0; first < total; first += staged_sums) {
    stage_sums(row_sums, ends, tile.rows_before() - first, staged);
    sync_warp();
#pragma unroll
    for (int i = 0; i < staged_sums; i += 32) {
      if (first + i + lane < total) __stcg(sums + first + i + lane, staged[i + lane]);
    }
    sync_warp();
  }
  return total;
}

// One thread block for every share of the tiles. Registers allow `Blocks` of them on an SM at a time.
template <class Value, int Blocks>
__global__ void __launch_bounds__(sum_panels_threads, Blocks)
    sum_panels_kernel(const panels_view<Value> A, const Value* x) {
  using sum_type = sum_type_t<Value>;
  extern __shared__ uint4 shared[];
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  Value* const shared_x = reinterpret_cast<Value*>(shared);
  sum_type* const staged =
      reinterpret_cast<sum_type*>(reinterpret_cast<char*>(shared) + A.panel_bytes()) + warp * staged_sums;
  let_next_kernel_start();
  if (threadIdx.x == 0) shared_x[A.panel_columns] = Value(0);

  const int first_part = A.share_parts[blockIdx.x];
  const int last_part = A.share_parts[blockIdx.x + 1];
  for (int i = first_part; i < last_part; ++i) {
    const int4 part = __ldg(A.parts + i);  // panel, first tile, tiles
    const int begin = part.y + part.z * warp / sum_panels_warps;
    const int end = part.y + part.z * (warp + 1) / sum_panels_warps;
    const int chunk = i * sum_panels_warps + warp;
    if (i > first_part) __syncthreads();  // all warps are done with the panel before
    load_panel(A, part.x, x, shared_x);
    prefetch_tiles(A, begin, end, lane);
    lane_tile<Value> next{};
    if (begin < end) next.load(A, begin, lane);
    sum_type* sums = A.sums + __ldg(A.first_sums + chunk);
    wait_for_async_copies();
    __syncthreads();

    sum_type carry = 0;
    for (int t = begin; t < end; ++t) {
      const lane_tile<Value> tile = next;
      if (t + 1 < end) next.load(A, t + 1, lane);
      sums += sum_tile(tile, shared_x, staged, sums, carry, lane);
    }
    if (lane == 0 && begin < end) A.carries[chunk] = carry;
  }
}

template <class Value>
struct panel_sums_view {
  std::int32_t num_rows;
  std::int32_t num_row_blocks;
  std::int32_t num_panels;
  const int2* row_blocks;  // [row block][panel]: number of the first sum, mask of rows
  const std::int32_t* block_cuts;
  const std::int32_t* cut_rows;
  const std::int32_t* cut_ptr;
  const std::int32_t* cut_chunks;
  const std::int32_t* row_ids;  // null: the rows in their order
  const sum_type_t<Value>* sums;
  const sum_type_t<Value>* carries;
};

// What chunks left of the cut row of each lane. Where hubs are neighbours, a warp has many cut rows: they are added up
// side by side, and only those of many chunks by the whole warp, one after the other.
template <class Value>
__device__ __forceinline__ sum_type_t<Value> sum_of_carries(const panel_sums_view<Value>& A, const int2& chunks,
                                                            int lane) {
  constexpr int chunks_of_lane = 8;
  const auto carry = [&](int i) { return __ldcg(A.carries + __ldg(A.cut_chunks + i)); };
  const bool has_many = chunks.y - chunks.x > chunks_of_lane;
  sum_type_t<Value> sum = 0;
#pragma unroll
  for (int i = 0; i < chunks_of_lane; ++i) {
    if (!has_many && chunks.x + i < chunks.y) sum += carry(chunks.x + i);
  }
  for (unsigned left = ballot(has_many); left != 0; left &= left - 1) {
    const int owner = __ffs(static_cast<int>(left)) - 1;
    const int begin = from_lane(chunks.x, owner), end = from_lane(chunks.y, owner);
    sum_type_t<Value> part = 0;
#pragma unroll 4
    for (int i = begin + lane; i < end; i += 32) part += carry(i);
    part = group_sum<32>(part);
    if (lane == owner) sum = part;
  }
  return sum;
}

// One thread for every row, one warp for every block of 32 rows.
template <class Value>
__global__ void __launch_bounds__(add_panels_threads) add_panels_kernel(const panel_sums_view<Value> A, Value* y) {
  using sum_type = sum_type_t<Value>;
  const int block = (blockIdx.x * add_panels_threads + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (block >= A.num_row_blocks) return;
  const unsigned below = (1u << lane) - 1;
  const int2* of_block = A.row_blocks + std::int64_t{block} * A.num_panels;
  const int first_cut = __ldg(A.block_cuts + block);
  const int num_cuts = __ldg(A.block_cuts + block + 1) - first_cut;  // at most 32, a lane for each
  int2 cut{0, 0};                                                    // its chunks
  int cut_row = 0;
  if (lane < num_cuts) {
    cut = {__ldg(A.cut_ptr + first_cut + lane), __ldg(A.cut_ptr + first_cut + lane + 1)};
    cut_row = __ldg(A.cut_rows + first_cut + lane) % 32;
  }
  int2 mine = lane < A.num_panels ? __ldg(of_block + lane) : int2{0, 0};  // of panel first + lane
  wait_for_previous_kernel();

  sum_type sum = 0;
  for (int first = 0; first < A.num_panels; first += 32) {
    if (first > 0) mine = first + lane < A.num_panels ? __ldg(of_block + first + lane) : int2{0, 0};
    const int panels = min(32, A.num_panels - first);
    for (int p = 0; p < panels; p += 8) {
      sum_type loaded[8];
#pragma unroll
      for (int u = 0; u < 8; ++u) {  // lanes past the last panel have empty masks
        const int first_sum = from_lane(mine.x, p + u);
        const unsigned mask = from_lane(static_cast<unsigned>(mine.y), p + u);
        loaded[u] = mask >> lane & 1 ? __ldcg(A.sums + first_sum + __popc(mask & below)) : sum_type{0};
      }
#pragma unroll
      for (int u = 0; u < 8; ++u) sum += loaded[u];
    }
  }
  const sum_type carried = sum_of_carries(A, cut, lane);
  for (int c = 0; c < num_cuts; ++c) {
    const sum_type of_row = from_lane(carried, c);
    if (from_lane(cut_row, c) == lane) sum += of_row;
  }
  const int row = block * 32 + lane;
  if (row < A.num_rows) y[A.row_ids ? __ldg(A.row_ids + row) : row] = narrow<Value>(sum);
}

}  // namespace warploom::cuda
