// The 24 features of a matrix in GPU memory: memory is cleared and two kernels run, the last of which writes what was
// found to host memory.
//
// The first kernel gives every warp the same number of neighbouring nonzeros, so that neither long nor empty rows cause
// imbalance, and every lane one of 32 at a time (row_segment.hpp). It writes the requests and the warps of each cache
// line and the lines of each row to memory. The second one reads these and row lengths, and finds minima, maxima and
// sums.
//
// Everything that is added up by several threads is an integer: results do not depend on any order. A matrix whose
// columns do not ascend within rows is noticed on the way; it is then counted again with its columns sorted.
#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <memory>
#include <optional>

#include "features/device_boundary.hpp"
#include "features/divider.hpp"
#include "features/row_segment.hpp"
#include "kernels/device/last_arrival.cuh"
#include "kernels/device/rows.cuh"
#include "kernels/device/warp.cuh"

namespace warploom {
namespace {

constexpr int threads_per_block = 256;
constexpr int warps_per_block = threads_per_block / 32;
constexpr int max_warps = 32;  // bits of a line's set of warps

// What is found, in one array of 64-bit words that starts as zeros. Minima are maxima of complements.
enum finding : int {
  longest_row,
  not_shortest_row,
  max_blocks,
  not_fewest_blocks,
  max_requests,
  not_fewest_requests,
  largest_distance,
  not_smallest_distance,
  decrease,  // positions in indptr, see boundary.hpp
  out_of_range,
  num_maxima,  // those above are maxima, those below are sums
  sum_blocks = num_maxima,
  sum_distance,
  num_sums,
  index_outside = num_sums,  // position in indices: a maximum found by the first kernel
  unsorted,                  // not 0 if a row's columns descend
  first_offset,
  num_nonzeros,
  load_of_warp,
  total_of_warp = load_of_warp + max_warps,
  distinct_of_warp = total_of_warp + max_warps,
  num_findings = distinct_of_warp + max_warps,
};
static_assert(num_findings * sizeof(std::uint64_t) <= cuda::pinned_memory::bytes);

struct line_counters {
  std::uint32_t requests;
  std::uint32_t warps;  // bit w: warp w requests the line
};

struct indices_view {
  const void* indices;
  bool wide;

  __device__ std::int64_t operator[](std::int64_t j) const {
    return wide ? static_cast<const std::int64_t*>(indices)[j] : static_cast<const std::int32_t*>(indices)[j];
  }
};

// Columns as they are compared: those that are no int32 make the matrix one that is refused.
struct columns_view {
  indices_view indices;

  __device__ std::int32_t operator[](std::int64_t j) const { return static_cast<std::int32_t>(indices[j]); }
};

// Arguments of both kernels.
struct work_view {
  std::uint32_t num_rows;
  std::uint32_t num_cols;
  std::uint32_t num_lines;
  std::int64_t num_indices;
  cuda::offsets_view indptr;
  indices_view indices;
  segment_geometry shape;
  uniform_divider warps;
  uniform_divider threads;
  std::uint64_t* findings;    // [num_findings], and a counter of thread blocks
  std::uint64_t* found;       // [num_findings], in host memory
  line_counters* lines;       // [num_lines]
  std::uint64_t* row_lines;   // [num_rows]: lines of a row, and shared ones in the upper half
  std::uint32_t* row_blocks;  // [num_rows], or null where blocks are lines
};

__device__ void find_maximum(std::uint64_t* findings, int which, std::uint64_t value) {
  atomicMax(reinterpret_cast<unsigned long long*>(findings + which), static_cast<unsigned long long>(value));
}

__device__ void find_sum(std::uint64_t* to, std::uint64_t value) {
  if (value != 0) atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}

// ---- The first kernel

// Requests of a block, gathered by line in shared memory: neighbouring rows request the same lines, and some lines are
// requested by nearly all rows. Where the lines fit, each has a place of its own; otherwise a line has two places that
// it may take, and goes to memory directly if others hold them.
constexpr std::uint32_t no_line = ~std::uint32_t{0};
constexpr int hashed_bits = 10;
constexpr int hashed_places = 1 << hashed_bits;

struct request_table {
  std::uint32_t* requests;
  std::uint32_t* warps;
  std::uint32_t* lines;  // that hold the places, or null where every line has its own
};

constexpr std::size_t bytes_of_place = 2 * sizeof(std::uint32_t);
constexpr std::size_t bytes_of_hashed_places = 3 * sizeof(std::uint32_t) * hashed_places;

// What a thread stores where others do the same.
__device__ std::uint32_t stored(const std::uint32_t* at) { return *static_cast<const volatile std::uint32_t*>(at); }

__device__ void add_requests(line_counters& to, std::uint32_t requests, std::uint32_t warps) {
  atomicAdd(&to.requests, requests);
  // Bits are only ever set: one that is read as set needs no atomic.
  if ((warps & ~__ldcg(&to.warps)) != 0) atomicOr(&to.warps, warps);
}

// Whether the line holds the place of a table that lines share, after taking it if it was free.
__device__ bool hold(const request_table& table, std::uint32_t place, std::uint32_t line) {
  std::uint32_t holder = stored(table.lines + place);
  if (holder == no_line) holder = atomicCAS(table.lines + place, no_line, line);
  return holder == no_line || holder == line;
}

// Atomics on memory that many threads want take turns: what needs none is found out by reading.
__device__ void request(const work_view& work, const request_table& table, std::uint32_t line, std::uint32_t row) {
  const std::uint32_t warp = 1u << work.warps.remainder(row);
  std::uint32_t place = line;
  if (table.lines != nullptr) {
    place = line * 2654435769u >> (32 - hashed_bits);
    if (!hold(table, place, line)) {
      place ^= 1;
      if (!hold(table, place, line)) return add_requests(work.lines[line], 1, warp);
    }
  }
  atomicAdd(table.requests + place, 1u);
  if ((stored(table.warps + place) & warp) == 0) atomicOr(table.warps + place, warp);
}

// A row of which a warp has counted something; `whole` if nobody else counts anything of it.
template <class Position>
struct open_row {
  Position row = -1;
  bool whole = false;
  row_counts counts;

  __device__ void write(const work_view& work) const {
    const std::uint64_t lines = std::uint64_t{counts.shared} << 32 | counts.lines;
    if (whole) {
      work.row_lines[row] = lines;
      if (work.row_blocks != nullptr) work.row_blocks[row] = counts.blocks;
    } else {
      find_sum(work.row_lines + row, lines);
      if (work.row_blocks != nullptr && counts.blocks != 0) atomicAdd(work.row_blocks + row, counts.blocks);
    }
  }
};

// row_of_nonzero over all rows, by a warp: 32 probes at a time, since each round waits for memory.
__device__ std::uint32_t row_by_warp(const cuda::offsets_view& indptr, std::uint32_t num_rows, std::int64_t j) {
  const std::uint32_t lane = threadIdx.x % 32;
  std::uint32_t first = 0;
  std::uint32_t end = num_rows;
  while (end - first > 1) {
    const std::uint32_t step = (end - first + 32) / 33;
    const std::uint32_t probe = first + (lane + 1) * step;
    const unsigned beyond = cuda::ballot(probe >= end || indptr[probe] > j);
    const std::uint32_t before = beyond == 0 ? 32 : __ffs(static_cast<int>(beyond)) - 1;
    first += before * step;
    end = min(end, first + step);
  }
  return first;
}

template <class Position>
constexpr Position never = std::numeric_limits<Position>::max();

// The row of nonzero j, which is in row `first` or after it. Lanes look for neighbouring nonzeros, and `row_end` is the
// end of row `first`.
template <class Position>
__device__ Position row_of_lane(const work_view& work, Position first, Position row_end, Position j) {
  if (cuda::ballot(j >= row_end) == 0) return first;
  const Position last = static_cast<Position>(work.num_rows) - 1;
  const Position mine = first + 1 + static_cast<Position>(threadIdx.x % 32);
  const Position end = mine <= last ? static_cast<Position>(work.indptr[mine]) : never<Position>;
  int rows = 0;  // that end at j or before it
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    if (cuda::from_lane(end, rows + step - 1) <= j) rows += step;
  }
  Position row = first + rows;
  // After more than 31 rows that end before it, most of them empty.
  if (rows == 31 && row < last && work.indptr[row + 1] <= j) {
    row = row_of_nonzero<Position>(work.indptr, row + 1, last, j);
  }
  return row;
}

__device__ std::uint32_t number_of(unsigned lanes) { return static_cast<std::uint32_t>(__popc(lanes)); }

// Counts nonzeros begin .. end - 1. Called by whole warps.
template <class Position>
__device__ void count_nonzeros_of_warp(const work_view& work, const request_table& table, Position begin,
                                       Position end) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const columns_view columns{work.indices};
  const auto column_of = [&](Position j) -> std::int32_t {
    if (j >= end) return 0;
    const std::int64_t column = work.indices[j];
    if (static_cast<std::uint64_t>(column) < work.num_cols) return static_cast<std::int32_t>(column);
    find_maximum(work.findings, index_outside, cuda::as_maximum(j));
    return 0;  // so that nothing is written out of bounds
  };
  auto row = static_cast<Position>(row_by_warp(work.indptr, work.num_rows, begin));
  auto row_end = static_cast<Position>(work.indptr[row + 1]);
  open_row<Position> open;  // in all lanes alike
  std::int32_t next_column = column_of(begin + lane);
  std::int32_t last_column = begin > 0 ? columns[begin - 1] : -1;
  for (Position base = begin; base < end; base += 32) {
    const Position j = base + lane;
    const std::int32_t column = next_column;
    next_column = column_of(j + 32);  // on its way while this one is looked at
    const Position row_of_j = row_of_lane(work, row, row_end, j < end ? j : end - 1);
    const auto row_begin = static_cast<Position>(work.indptr[row_of_j]);
    row_end = static_cast<Position>(work.indptr[row_of_j + 1]);
    std::int32_t column_before = cuda::from_lane_before(column);
    if (lane == 0) column_before = last_column;
    last_column = cuda::from_lane(column, 31);
    nonzero_counts found;
    if (j < end) {
      const Position before = row_of_j > 0 ? static_cast<Position>(work.indptr[row_of_j - 1]) : row_begin;
      found = count_nonzero<Position>(columns, before, row_begin, j, column, j > row_begin ? column_before : -1,
                                      work.shape);
      if (found.descends) work.findings[finding::unsorted] = 1;
      if (found.line) request(work, table, found.number, static_cast<std::uint32_t>(row_of_j));
    }
    // Lanes of a row are neighbours: the first of them counts for all. The last row may go on.
    const unsigned lines = cuda::ballot(found.line);
    const unsigned shared = cuda::ballot(found.shared);
    const unsigned blocks = work.shape.count_blocks ? cuda::ballot(found.block) : 0;
    const Position row_before = cuda::from_lane_before(row_of_j);
    const unsigned heads = cuda::ballot(lane == 0 || row_of_j != row_before);
    const int last_head = 31 - __clz(static_cast<int>(heads));
    const unsigned next_heads = heads & ~1u << lane;
    const unsigned lanes_of_row =
        ~0u << lane & ~(next_heads == 0 ? 0 : ~0u << (__ffs(static_cast<int>(next_heads)) - 1));
    open_row mine{
        row_of_j,
        row_begin >= begin && row_end <= end,
        {number_of(lines & lanes_of_row), number_of(shared & lanes_of_row), number_of(blocks & lanes_of_row)}};
    if (lane == 0 && open.row >= 0) {
      if (open.row == row_of_j) {
        mine.counts.lines += open.counts.lines;
        mine.counts.shared += open.counts.shared;
        mine.counts.blocks += open.counts.blocks;
      } else {
        open.write(work);
      }
    }
    if ((heads >> lane & 1) != 0 && lane != last_head) mine.write(work);
    row = cuda::from_lane(row_of_j, last_head);
    row_end = cuda::from_lane(row_end, last_head);
    open = {row,
            cuda::from_lane(static_cast<int>(mine.whole), last_head) != 0,
            {cuda::from_lane(mine.counts.lines, last_head), cuda::from_lane(mine.counts.shared, last_head),
             cuda::from_lane(mine.counts.blocks, last_head)}};
  }
  if (lane == 0 && open.row >= 0) open.write(work);
}

// Nearly always both arrays are int32, divisors are powers of two, and blocks are not counted: a kernel of its own need
// not ask, which counts where instructions are what takes time.
bool is_usual(const work_view& work) {
  return !work.indptr.wide && !work.indices.wide && !work.shape.count_blocks && work.shape.line.shift >= 0 &&
         work.warps.shift >= 0;
}

__device__ work_view as_usual(work_view work) {
  work.indptr.wide = false;
  work.indices.wide = false;
  work.shape.count_blocks = false;
  work.row_blocks = nullptr;
  __builtin_assume(work.shape.line.shift >= 0);
  __builtin_assume(work.warps.shift >= 0);
  return work;
}

// `places` of the table in shared memory: as many as there are lines, or 0 where lines share them. With few enough
// registers for as many warps as a multiprocessor holds: lanes wait for one read after the other.
template <class Position, int Threads, bool Usual>
__global__ void __launch_bounds__(Threads, cuda::blocks_with_registers(Threads, Usual ? 2048 / Threads : 1))
    count_nonzeros_kernel(const work_view given, const int nonzeros_per_warp, const int places) {
  const work_view work = Usual ? as_usual(given) : given;
  extern __shared__ std::uint32_t counters[];
  const int size_of_table = places > 0 ? places : hashed_places;
  const request_table table{counters, counters + size_of_table, places > 0 ? nullptr : counters + 2 * size_of_table};
  const auto nnz = static_cast<Position>(min(work.indptr[work.num_rows], work.num_indices));
  const Position begin_of_block = static_cast<Position>(blockIdx.x) * (Threads / 32) * nonzeros_per_warp;
  if (begin_of_block >= nnz) return;  // the whole block: arrays may be longer than they need be

  for (int i = threadIdx.x; i < size_of_table; i += Threads) {
    table.requests[i] = 0;
    table.warps[i] = 0;
    if (table.lines != nullptr) table.lines[i] = no_line;
  }
  __syncthreads();
  const Position begin = begin_of_block + static_cast<Position>(threadIdx.x / 32) * nonzeros_per_warp;
  // What is counted of a matrix whose columns do not ascend is of no use.
  const bool useless = *static_cast<volatile std::uint64_t*>(work.findings + unsorted) != 0;
  if (begin < nnz && !cuda::any_lane(useless)) {
    const Position rest = nnz - begin;
    count_nonzeros_of_warp(work, table, begin, begin + min(rest, Position{nonzeros_per_warp}));
  }
  __syncthreads();
  for (int i = threadIdx.x; i < size_of_table; i += Threads) {
    if (table.requests[i] == 0) continue;
    const std::uint32_t line = table.lines == nullptr ? i : table.lines[i];
    add_requests(work.lines[line], table.requests[i], table.warps[i]);
  }
}

// ---- The second kernel

// What a thread has counted. Counts of a row or a line fit 32 bits; lengths of rows may not.
struct extremes {
  std::uint32_t most = 0;
  std::uint32_t not_fewest = 0;

  __device__ void add(std::uint32_t value) {
    most = max(most, value);
    not_fewest = max(not_fewest, ~value);
  }
};

struct rows_seen {
  std::uint64_t longest = 0;
  std::uint64_t not_shortest = 0;
  std::uint64_t decrease = cuda::no_position;
  std::uint64_t out_of_range = cuda::no_position;
  extremes blocks;
  extremes distance;
  std::uint64_t sum_blocks = 0;
  std::uint64_t sum_distance = 0;
  std::uint64_t load = 0;  // of the one warp that all rows of the thread belong to
  std::uint64_t total = 0;
};

__device__ void count_row(const work_view& work, std::uint32_t row, rows_seen& seen) {
  const std::int64_t begin = work.indptr[row];
  const std::int64_t end = work.indptr[row + std::int64_t{1}];
  const std::uint64_t packed = work.row_lines[row];
  const std::uint64_t packed_before = row > 0 ? work.row_lines[row - 1] : 0;
  const auto lines = static_cast<std::uint32_t>(packed);
  const std::uint32_t blocks = work.row_blocks != nullptr ? work.row_blocks[row] : lines;
  const std::uint64_t position = cuda::as_maximum(std::uint64_t{row} + 1);
  if (end < begin) seen.decrease = max(seen.decrease, position);
  if (end > work.num_indices) seen.out_of_range = max(seen.out_of_range, position);
  const std::uint64_t length = end - begin;  // meaningless if negative: the matrix is refused
  seen.longest = max(seen.longest, length);
  seen.not_shortest = max(seen.not_shortest, ~length);
  const std::uint64_t rounded = length + work.threads.divisor - 1;
  seen.load += work.threads.shift >= 0 ? rounded >> work.threads.shift : rounded / work.threads.divisor;
  seen.total += lines;
  seen.blocks.add(blocks);
  seen.sum_blocks += blocks;
  if (row == 0) return;
  const auto shared = static_cast<std::uint32_t>(packed >> 32);
  const std::uint32_t distance = static_cast<std::uint32_t>(packed_before) + lines - 2 * shared;
  seen.distance.add(distance);
  seen.sum_distance += distance;
}

// Requests of lines base .. base + 31, one a lane; `distinct` counts the lines of the warp whose number is the lane's.
__device__ void count_lines(const work_view& work, std::uint32_t base, extremes& requests, std::uint64_t& distinct) {
  const std::uint32_t lane = threadIdx.x % 32;
  line_counters line{0, 0};
  if (lane < work.num_lines - base) {
    line = work.lines[base + lane];
    requests.add(line.requests);
  }
#pragma unroll
  for (int warp = 0; warp < max_warps; ++warp) {
    const unsigned having = cuda::ballot(line.warps >> warp & 1u);
    if (lane == warp) distinct += __popc(having);
  }
}

__global__ void __launch_bounds__(threads_per_block) summarise_kernel(const work_view work) {
  __shared__ std::uint64_t of_warps[warps_per_block][num_sums];
  __shared__ unsigned long long of_slots[num_findings - load_of_warp];
  for (int i = threadIdx.x; i < num_findings - load_of_warp; i += threads_per_block) of_slots[i] = 0;
  __syncthreads();

  // Blocks take rows in multiples of N_w, so that all rows of a thread belong to the same warp.
  rows_seen rows;
  const std::uint32_t rows_of_block = threads_per_block - work.warps.remainder(threads_per_block);
  if (threadIdx.x < rows_of_block) {
    const std::uint32_t stride = gridDim.x * rows_of_block;
#pragma unroll 2
    for (std::uint32_t row = blockIdx.x * rows_of_block + threadIdx.x; row < work.num_rows; row += stride) {
      count_row(work, row, rows);
    }
  }
  extremes requests;
  std::uint64_t distinct = 0;
  const std::uint32_t first_line = blockIdx.x * threads_per_block + threadIdx.x / 32 * 32;
  for (std::uint64_t base = first_line; base < work.num_lines; base += gridDim.x * threads_per_block) {
    count_lines(work, static_cast<std::uint32_t>(base), requests, distinct);
  }

  const int lane = threadIdx.x % 32;
  std::uint64_t (&of_warp)[num_sums] = of_warps[threadIdx.x / 32];
  const auto keep = [&](int which, std::uint64_t value) {
    if (lane == 0) of_warp[which] = value;
  };
  keep(longest_row, cuda::warp_maximum(rows.longest));
  keep(not_shortest_row, cuda::warp_maximum(rows.not_shortest));
  keep(max_blocks, cuda::warp_maximum(rows.blocks.most));
  keep(not_fewest_blocks, cuda::warp_maximum(rows.blocks.not_fewest));
  keep(max_requests, cuda::warp_maximum(requests.most));
  keep(not_fewest_requests, cuda::warp_maximum(requests.not_fewest));
  keep(largest_distance, cuda::warp_maximum(rows.distance.most));
  keep(not_smallest_distance, cuda::warp_maximum(rows.distance.not_fewest));
  keep(decrease, cuda::warp_maximum(rows.decrease));
  keep(out_of_range, cuda::warp_maximum(rows.out_of_range));
  keep(sum_blocks, cuda::group_sum<32>(rows.sum_blocks));
  keep(sum_distance, cuda::group_sum<32>(rows.sum_distance));
  const int warp = static_cast<int>(work.warps.remainder(threadIdx.x));
  if (rows.load != 0) atomicAdd(of_slots + warp, static_cast<unsigned long long>(rows.load));
  if (rows.total != 0) {
    atomicAdd(of_slots + (total_of_warp - load_of_warp) + warp, static_cast<unsigned long long>(rows.total));
  }
  if (distinct != 0) {
    atomicAdd(of_slots + (distinct_of_warp - load_of_warp) + lane, static_cast<unsigned long long>(distinct));
  }
  __syncthreads();

  if (threadIdx.x < num_sums) {
    const int which = threadIdx.x;
    std::uint64_t all = 0;
    for (int w = 0; w < warps_per_block; ++w) {
      all = which < num_maxima ? max(all, of_warps[w][which]) : all + of_warps[w][which];
    }
    if (which < num_maxima) {
      if (all != 0) find_maximum(work.findings, which, all);
    } else {
      find_sum(work.findings + which, all);
    }
  }
  const int slot = static_cast<int>(threadIdx.x) - 32;  // warps other than the one above
  if (slot >= 0 && slot < num_findings - load_of_warp) find_sum(work.findings + load_of_warp + slot, of_slots[slot]);
  if (blockIdx.x == 0 && threadIdx.x == threads_per_block - 1) {
    work.findings[first_offset] = work.indptr[0];
    work.findings[num_nonzeros] = work.indptr[work.num_rows];
  }
  __shared__ bool last;
  __syncthreads();
  auto* const arrived = reinterpret_cast<unsigned*>(work.findings + num_findings);
  if (!cuda::block_arrives_last(arrived, static_cast<int>(gridDim.x), last)) return;
  for (int i = threadIdx.x; i < num_findings; i += threads_per_block) work.found[i] = __ldcg(work.findings + i);
}
static_assert(32 + num_findings - load_of_warp < threads_per_block && num_sums <= 32);

// ---- The host's side

uniform_divider divide_by(int divisor) {
  const auto positive = static_cast<std::uint32_t>(divisor);
  return {positive, std::has_single_bit(positive) ? std::countr_zero(positive) : -1};
}

// Of a thread block of the first kernel, beside a few variables.
std::size_t most_bytes_of_shared_memory() {
  return static_cast<std::size_t>(cuda::device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)) - 64;
}

// Thread blocks of the first kernel that a multiprocessor holds. The latest answer is kept: the driver takes as long to
// give it as to launch the kernel.
template <class Position, int Threads, bool Usual>
int resident_blocks(std::size_t shared_bytes) {
  static std::atomic<std::uint64_t> latest{0};  // the question in the upper half, the answer in the lower
  const std::uint64_t question =
      std::uint64_t{shared_bytes} << 8 | (static_cast<unsigned>(cuda::current_device()) & 255);
  if (const std::uint64_t known = latest; known >> 32 == question) return static_cast<int>(known);
  constexpr auto kernel = count_nonzeros_kernel<Position, Threads, Usual>;
  // For the largest table: other threads launch the same kernel with other ones.
  WARPLOOM_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           static_cast<int>(most_bytes_of_shared_memory())));
  int resident = 0;
  WARPLOOM_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, Threads, shared_bytes));
  resident = std::max(resident, 1);
  latest = question << 32 | static_cast<unsigned>(resident);
  return resident;
}

// Launches the first kernel with a table of so many places, or with one that lines share.
template <class Position, int Threads, bool Usual>
void count_nonzeros(const work_view& work, int places, cudaStream_t stream) {
  const auto kernel = count_nonzeros_kernel<Position, Threads, Usual>;
  const std::size_t shared_bytes = places > 0 ? places * bytes_of_place : bytes_of_hashed_places;
  const std::int64_t warps = std::int64_t{resident_blocks<Position, Threads, Usual>(shared_bytes)} *
                             cuda::device_attribute(cudaDevAttrMultiProcessorCount) * (Threads / 32);
  // As few blocks as keep the GPU busy: each adds what it gathered to the same lines in memory. Shared places fill up.
  const std::int64_t even = ceil_divide(ceil_divide(work.num_indices, warps), 32) * 32;
  const std::int64_t of_warp = std::max<std::int64_t>(places > 0 ? even : std::min<std::int64_t>(even, 896), 64);
  const auto blocks = static_cast<unsigned>(ceil_divide(work.num_indices, of_warp * (Threads / 32)));
  kernel<<<blocks, Threads, shared_bytes, stream>>>(work, static_cast<int>(of_warp), places);
  cuda::check_launch("count_nonzeros_kernel");
}

template <class Position, bool Usual>
void count_nonzeros(const work_view& work, cudaStream_t stream) {
  constexpr std::uint32_t few_lines = 1024;
  constexpr int most_threads = 1024;  // of blocks that have multiprocessors to themselves
  const auto places = static_cast<int>(work.num_lines);
  if (work.num_lines <= few_lines) {
    count_nonzeros<Position, threads_per_block, Usual>(work, places, stream);
  } else if (work.num_lines * bytes_of_place <= most_bytes_of_shared_memory()) {
    count_nonzeros<Position, most_threads, Usual>(work, places, stream);
  } else {
    count_nonzeros<Position, threads_per_block, Usual>(work, 0, stream);
  }
}

void count_nonzeros(const work_view& work, cudaStream_t stream) {
  if (work.num_indices == 0 || work.num_rows == 0 || work.num_cols == 0) return;
  if (work.num_indices >= 1 << 30 || work.num_rows >= 1 << 30) {
    count_nonzeros<std::int64_t, false>(work, stream);
  } else if (is_usual(work)) {
    count_nonzeros<std::int32_t, true>(work, stream);
  } else {
    count_nonzeros<std::int32_t, false>(work, stream);
  }
}

// What kernels use until they are done.
class spmm_run {
 public:
  spmm_run(const device_csr_arrays& matrix, const geometry& shape, cudaStream_t stream);

  std::vector<double> values();

 private:
  void enqueue();

  device_csr_arrays matrix_;
  geometry shape_;
  cudaStream_t stream_;
  work_view work_{};
  std::optional<cuda::pooled_memory> memory_;
  cuda::pinned_memory results_;
  cuda::enqueued_work enqueued_;
};

spmm_run::spmm_run(const device_csr_arrays& matrix, const geometry& shape, cudaStream_t stream)
    : matrix_(matrix), shape_(shape), stream_(stream), enqueued_(stream) {
  work_.num_rows = static_cast<std::uint32_t>(matrix.num_rows);
  work_.num_cols = static_cast<std::uint32_t>(matrix.num_cols);
  work_.num_lines = static_cast<std::uint32_t>(ceil_divide(matrix.num_cols, shape.elements_per_cache_line));
  work_.num_indices = matrix.num_indices;
  work_.indptr = {matrix.indptr, matrix.wide_indptr};
  work_.indices = {matrix.indices, matrix.wide_indices};
  work_.shape = {divide_by(shape.elements_per_cache_line), divide_by(shape.warps),
                 shape.warps != shape.elements_per_cache_line};
  work_.warps = divide_by(shape.warps);
  work_.threads = divide_by(shape.threads);
  work_.found = results_.as<std::uint64_t>();
  enqueue();
}

// Both kernels.
void spmm_run::enqueue() {
  const bool count_blocks = work_.shape.count_blocks;
  const std::size_t findings_bytes = (num_findings + 1) * sizeof(std::uint64_t);
  const std::size_t lines_bytes = work_.num_lines * sizeof(line_counters);
  const std::size_t rows_bytes = work_.num_rows * sizeof(std::uint64_t);
  const std::size_t blocks_bytes = count_blocks ? work_.num_rows * sizeof(std::uint32_t) : 0;
  const std::size_t bytes = findings_bytes + lines_bytes + rows_bytes + blocks_bytes;
  memory_.emplace(bytes, stream_);
  std::byte* const first = memory_->data();
  work_.findings = reinterpret_cast<std::uint64_t*>(first);
  work_.lines = reinterpret_cast<line_counters*>(first + findings_bytes);
  work_.row_lines = reinterpret_cast<std::uint64_t*>(first + findings_bytes + lines_bytes);
  work_.row_blocks =
      count_blocks ? reinterpret_cast<std::uint32_t*>(first + findings_bytes + lines_bytes + rows_bytes) : nullptr;
  WARPLOOM_CUDA_CHECK(cudaMemsetAsync(first, 0, bytes, stream_));

  count_nonzeros(work_, stream_);
  const std::int64_t multiprocessors = cuda::device_attribute(cudaDevAttrMultiProcessorCount);
  const std::int64_t wanted = ceil_divide(std::max(work_.num_rows, work_.num_lines), threads_per_block);
  const auto blocks = static_cast<unsigned>(std::clamp<std::int64_t>(wanted, 1, 4 * multiprocessors));
  summarise_kernel<<<blocks, threads_per_block, 0, stream_>>>(work_);
  cuda::check_launch("summarise_kernel");
}

spmm_statistics statistics_of(const std::uint64_t* found, const device_csr_arrays& matrix, const work_view& work,
                              const geometry& shape) {
  const std::int64_t rows = matrix.num_rows;
  const std::int64_t pairs = std::max<std::int64_t>(rows - 1, 0);
  const auto value = [&](int which) { return static_cast<std::int64_t>(found[which]); };
  // Minima of 32-bit counts are 32-bit complements.
  const auto narrow = [&](int which) { return static_cast<std::int64_t>(~static_cast<std::uint32_t>(found[which])); };
  summary load, total, distinct;
  std::int64_t requests = 0;
  for (int warp = 0; warp < shape.warps; ++warp) {
    load.add(value(load_of_warp + warp));
    total.add(value(total_of_warp + warp));
    distinct.add(value(distinct_of_warp + warp));
    requests += value(total_of_warp + warp);
  }
  const std::int64_t nnz = value(num_nonzeros);
  const std::int64_t blocks = value(sum_blocks);
  const summary lengths(rows, nnz, static_cast<std::int64_t>(~found[not_shortest_row]), value(longest_row));
  return {{rows, matrix.num_cols, nnz},
          lengths,
          load,
          {summary(rows, blocks, narrow(not_fewest_blocks), value(max_blocks)),
           summary(work.num_lines, requests, narrow(not_fewest_requests), value(max_requests)), distinct, total,
           summary(pairs, value(sum_distance), narrow(not_smallest_distance), value(largest_distance))}};
}

std::vector<double> spmm_run::values() {
  enqueued_.wait();
  const std::uint64_t* const found = work_.found;
  const auto nnz = static_cast<std::int64_t>(found[num_nonzeros]);
  cuda::check_offsets({static_cast<std::int64_t>(found[first_offset]), nnz, found[decrease], found[out_of_range]},
                      matrix_);
  cuda::check_indices(found[index_outside], nnz, matrix_);
  if (found[unsorted] != 0) {
    const cuda::pooled_memory sorted = cuda::sort_columns(matrix_, nnz, stream_);
    work_.indices = {sorted.data(), false};
    enqueued_.goes_on();
    enqueue();
    enqueued_.wait();
  }
  std::vector<double> values(spmm_features.names.size());
  write_features(statistics_of(found, matrix_, work_, shape_), values.data());
  return values;
}

}  // namespace

pending_features start_cuda_spmm_features(const device_csr_arrays& matrix, const geometry& shape, CUstream_st* stream) {
  if (shape.warps > max_warps) {
    return [=] { return cuda::compute_on_host(spmm_features, matrix, shape, stream); };
  }
  return [run = std::make_shared<spmm_run>(matrix, shape, stream)] { return run->values(); };
}

}  // namespace warploom
