// The 24 features of a matrix in GPU memory: memory is cleared and two kernels run, the last of which writes what was
// found to host memory.
//
// The first kernel gives every thread the same number of neighbouring nonzeros (row_segment.hpp), so that neither long
// nor empty rows cause imbalance. It writes the requests and the warps of each cache line and the lines of each row to
// memory. The second one reads these and row lengths, and finds minima, maxima and sums.
//
// Everything that is added up by several threads is an integer: results do not depend on any order. A matrix whose
// columns do not ascend within rows is noticed on the way; it is then counted again with its columns sorted.
#include <algorithm>
#include <atomic>
#include <bit>

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

constexpr int nonzeros_per_thread =
    7;  // odd: threads read neighbouring segments of shared memory without bank conflicts
constexpr int offsets_per_thread = 4;

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

// Shared memory of a block beside its table.
template <class Position, int Threads>
struct staged_arrays {
  Position offsets[Threads * offsets_per_thread];
  std::int32_t columns[Threads * nonzeros_per_thread];
};

// What a thread stores where others do the same.
__device__ std::uint32_t stored(const std::uint32_t* at) { return *static_cast<const volatile std::uint32_t*>(at); }

__device__ void add_requests(line_counters& to, std::uint32_t requests, std::uint32_t warps) {
  atomicAdd(&to.requests, requests);
  // Bits are only ever set: one that is read as set needs no atomic.
  if ((warps & ~__ldcg(&to.warps)) != 0) atomicOr(&to.warps, warps);
}

// Columns of the block's nonzeros from shared memory, those before them from where they are.
template <class Position>
struct block_columns {
  const std::int32_t* staged;
  Position begin;
  indices_view indices;

  __device__ std::int32_t operator[](Position j) const {
    return j >= begin ? staged[j - begin] : static_cast<std::int32_t>(indices[j]);
  }
};

// Offsets first .. end - 1 from shared memory, others from where they are.
template <class Position>
struct block_offsets {
  const Position* staged;
  Position first;
  Position end;
  cuda::offsets_view offsets;

  __device__ Position operator[](Position row) const {
    return row >= first && row < end ? staged[row - first] : static_cast<Position>(offsets[row]);
  }
};

struct block_sink {
 public:
  const work_view& work;
  const request_table& table;

  // Atomics on memory that many threads want take turns: what needs none is found out by reading.
  __device__ void request(std::uint32_t line, std::int64_t row) {
    const std::uint32_t warp = 1u << work.warps.remainder(static_cast<std::uint32_t>(row));
    std::uint32_t place = line;
    if (table.lines != nullptr) {
      place = line * 2654435769u >> (32 - hashed_bits);
      if (!hold(place, line)) {
        place ^= 1;
        if (!hold(place, line)) return add_requests(work.lines[line], 1, warp);
      }
    }
    atomicAdd(table.requests + place, 1u);
    if ((stored(table.warps + place) & warp) == 0) atomicOr(table.warps + place, warp);
  }
  __device__ void whole_row(std::int64_t row, const row_counts& counts) {  // nobody else writes to it
    work.row_lines[row] = packed(counts);
    if (work.row_blocks != nullptr) work.row_blocks[row] = counts.blocks;
  }
  __device__ void part_of_row(std::int64_t row, const row_counts& counts) {
    find_sum(work.row_lines + row, packed(counts));
    if (work.row_blocks != nullptr && counts.blocks != 0) atomicAdd(work.row_blocks + row, counts.blocks);
  }
  __device__ void unsorted() { work.findings[finding::unsorted] = 1; }

  __device__ static std::uint64_t packed(const row_counts& counts) {
    return std::uint64_t{counts.shared} << 32 | counts.lines;
  }

 private:
  // Whether the line holds the place, after taking it if it was free.
  __device__ bool hold(std::uint32_t place, std::uint32_t line) {
    std::uint32_t holder = stored(table.lines + place);
    if (holder == no_line) holder = atomicCAS(table.lines + place, no_line, line);
    return holder == no_line || holder == line;
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

// The row that a thread stops in is reported once for all threads of a warp if all of them stop in it. Called by whole
// warps; `row` is -1 where there is none.
__device__ void finish_row(block_sink& sink, std::int64_t row, const row_counts& open) {
  static_assert(32 * nonzeros_per_thread < 1 << 10, "sums of a warp fit ten bits");
  if (cuda::same_in_all_lanes(static_cast<unsigned long long>(row))) {
    const unsigned sum = cuda::group_sum<32>(open.lines | open.shared << 10 | open.blocks << 20);
    if (row >= 0 && threadIdx.x % 32 == 0) {
      sink.part_of_row(row, {sum & 0x3ff, sum >> 10 & 0x3ff, sum >> 20});
    }
  } else if (row >= 0) {
    sink.part_of_row(row, open);
  }
}

// Counts nonzeros begin .. begin + size - 1. Called by whole blocks.
template <class Position, int Threads>
__device__ void count_block_segment(const work_view& work, Position begin, int size, const request_table& table,
                                    staged_arrays<Position, Threads>& staged) {
  __shared__ std::uint32_t block_rows[2];
  __shared__ bool useless;  // what is counted of a matrix whose columns do not ascend
  for (int i = threadIdx.x; i < size; i += Threads) {
    const std::int64_t column = work.indices[begin + i];
    const bool inside = static_cast<std::uint64_t>(column) < work.num_cols;
    if (!inside) find_maximum(work.findings, index_outside, cuda::as_maximum(begin + i));
    staged.columns[i] = inside ? static_cast<std::int32_t>(column) : 0;  // so that nothing is written out of bounds
  }
  const int warp = threadIdx.x / 32;
  if (warp < 2) {
    const std::uint32_t row = row_by_warp(work.indptr, work.num_rows, warp == 0 ? begin : begin + size - 1);
    if (threadIdx.x % 32 == 0) block_rows[warp] = row;
  } else if (threadIdx.x == 64) {
    useless = *static_cast<volatile std::uint64_t*>(work.findings + finding::unsorted) != 0;
  }
  __syncthreads();
  if (!useless) {
    // Offsets that decrease may put the two rows out of order; nothing that is counted then is used.
    const auto first_row = static_cast<Position>(block_rows[0]);
    const auto last_row = static_cast<Position>(max(block_rows[0], block_rows[1]));
    const Position first = max(first_row - 1, Position{0});  // the row before is looked into
    const Position end = min(last_row + 2, first + Threads * offsets_per_thread);
    for (Position i = threadIdx.x; i < end - first; i += Threads) {
      staged.offsets[i] = static_cast<Position>(work.indptr[first + i]);
    }
    __syncthreads();

    block_sink sink{work, table};
    row_counts open;
    Position row = -1;
    const int offset = threadIdx.x * nonzeros_per_thread;
    if (offset < size) {
      row = count_segment<Position>(block_offsets<Position>{staged.offsets, first, end, work.indptr},
                                    block_columns<Position>{staged.columns, begin, work.indices}, begin + offset,
                                    begin + min(offset + nonzeros_per_thread, size), first_row, last_row, work.shape,
                                    sink, open);
    }
    finish_row(sink, row, open);
  }
  __syncthreads();
}

// `places` of the table in shared memory: as many as there are lines, or 0 where lines share them.
template <class Position, int Threads>
__global__ void __launch_bounds__(Threads)
    count_nonzeros_kernel(const work_view work, const int segments_per_block, const int places) {
  extern __shared__ std::uint64_t shared[];
  auto& staged = *reinterpret_cast<staged_arrays<Position, Threads>*>(shared);
  auto* const counters = reinterpret_cast<std::uint32_t*>(&staged + 1);
  const int size_of_table = places > 0 ? places : hashed_places;
  const request_table table{counters, counters + size_of_table, places > 0 ? nullptr : counters + 2 * size_of_table};

  constexpr int nonzeros_per_segment = Threads * nonzeros_per_thread;
  const std::int64_t nonzeros_of_block = std::int64_t{segments_per_block} * nonzeros_per_segment;
  std::int64_t begin = blockIdx.x * nonzeros_of_block;
  const std::int64_t nnz = min(work.indptr[work.num_rows], work.num_indices);
  if (begin >= nnz) return;  // the whole block: arrays may be longer than they need be
  const std::int64_t end = min(begin + nonzeros_of_block, nnz);

  for (int i = threadIdx.x; i < size_of_table; i += Threads) {
    table.requests[i] = 0;
    table.warps[i] = 0;
    if (table.lines != nullptr) table.lines[i] = no_line;
  }
  for (; begin < end; begin += nonzeros_per_segment) {
    const int size = static_cast<int>(min(std::int64_t{nonzeros_per_segment}, end - begin));
    count_block_segment<Position, Threads>(work, static_cast<Position>(begin), size, table, staged);
  }
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
template <class Position, int Threads>
int resident_blocks(std::size_t shared_bytes) {
  static std::atomic<std::uint64_t> latest{0};  // the question in the upper half, the answer in the lower
  const std::uint64_t question =
      std::uint64_t{shared_bytes} << 8 | (static_cast<unsigned>(cuda::current_device()) & 255);
  if (const std::uint64_t known = latest; known >> 32 == question) return static_cast<int>(known);
  constexpr auto kernel = count_nonzeros_kernel<Position, Threads>;
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
template <class Position, int Threads>
void count_nonzeros(const work_view& work, int places, cudaStream_t stream) {
  const auto kernel = count_nonzeros_kernel<Position, Threads>;
  const std::size_t shared_bytes =
      sizeof(staged_arrays<Position, Threads>) + (places > 0 ? places * bytes_of_place : bytes_of_hashed_places);
  const std::int64_t busy = std::int64_t{resident_blocks<Position, Threads>(shared_bytes)} *
                            cuda::device_attribute(cudaDevAttrMultiProcessorCount);
  // As few blocks as keep the GPU busy: each adds what it gathered to the same lines in memory. Shared places fill up.
  const std::int64_t segments = ceil_divide(work.num_indices, Threads * nonzeros_per_thread);
  const std::int64_t of_block = std::clamp<std::int64_t>(segments / busy, 1, places > 0 ? segments : 4);
  const auto blocks = static_cast<unsigned>(ceil_divide(segments, of_block));
  kernel<<<blocks, Threads, shared_bytes, stream>>>(work, static_cast<int>(of_block), places);
  cuda::check_launch("count_nonzeros_kernel");
}

void count_nonzeros(const work_view& work, cudaStream_t stream) {
  if (work.num_indices == 0 || work.num_rows == 0 || work.num_cols == 0) return;
  constexpr std::uint32_t few_lines = 1024;
  constexpr int threads = 1024;  // of the blocks that have multiprocessors to themselves
  const auto places = static_cast<int>(work.num_lines);
  if (work.num_indices >= 1 << 30 || work.num_rows >= 1 << 30) {
    return count_nonzeros<std::int64_t, threads_per_block>(work, work.num_lines <= few_lines ? places : 0, stream);
  }
  if (work.num_lines <= few_lines) {
    return count_nonzeros<std::int32_t, threads_per_block>(work, places, stream);
  }
  const std::size_t wanted = sizeof(staged_arrays<std::int32_t, threads>) + work.num_lines * bytes_of_place;
  if (wanted <= most_bytes_of_shared_memory()) return count_nonzeros<std::int32_t, threads>(work, places, stream);
  count_nonzeros<std::int32_t, threads_per_block>(work, 0, stream);
}

// Runs both kernels and waits for them.
void find(work_view work, cudaStream_t stream) {
  const bool count_blocks = work.shape.count_blocks;
  const std::size_t findings_bytes = (num_findings + 1) * sizeof(std::uint64_t);
  const std::size_t lines_bytes = work.num_lines * sizeof(line_counters);
  const std::size_t rows_bytes = work.num_rows * sizeof(std::uint64_t);
  const std::size_t blocks_bytes = count_blocks ? work.num_rows * sizeof(std::uint32_t) : 0;
  const std::size_t bytes = findings_bytes + lines_bytes + rows_bytes + blocks_bytes;
  const cuda::pooled_memory memory(bytes, stream);
  std::byte* const first = memory.data();
  work.findings = reinterpret_cast<std::uint64_t*>(first);
  work.lines = reinterpret_cast<line_counters*>(first + findings_bytes);
  work.row_lines = reinterpret_cast<std::uint64_t*>(first + findings_bytes + lines_bytes);
  work.row_blocks =
      count_blocks ? reinterpret_cast<std::uint32_t*>(first + findings_bytes + lines_bytes + rows_bytes) : nullptr;
  WARPLOOM_CUDA_CHECK(cudaMemsetAsync(first, 0, bytes, stream));

  count_nonzeros(work, stream);
  const std::int64_t multiprocessors = cuda::device_attribute(cudaDevAttrMultiProcessorCount);
  const std::int64_t wanted = ceil_divide(std::max(work.num_rows, work.num_lines), threads_per_block);
  const auto blocks = static_cast<unsigned>(std::clamp<std::int64_t>(wanted, 1, 4 * multiprocessors));
  summarise_kernel<<<blocks, threads_per_block, 0, stream>>>(work);
  cuda::check_launch("summarise_kernel");
  synchronize(stream);
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

}  // namespace

void compute_cuda_spmm_features(const device_csr_arrays& matrix, const geometry& shape, CUstream_st* stream,
                                double* values) {
  if (shape.warps > max_warps) return cuda::compute_on_host(spmm_features, matrix, shape, stream, values);
  work_view work{};
  work.num_rows = static_cast<std::uint32_t>(matrix.num_rows);
  work.num_cols = static_cast<std::uint32_t>(matrix.num_cols);
  work.num_lines = static_cast<std::uint32_t>(ceil_divide(matrix.num_cols, shape.elements_per_cache_line));
  work.num_indices = matrix.num_indices;
  work.indptr = {matrix.indptr, matrix.wide_indptr};
  work.indices = {matrix.indices, matrix.wide_indices};
  work.shape = {divide_by(shape.elements_per_cache_line), divide_by(shape.warps),
                shape.warps != shape.elements_per_cache_line};
  work.warps = divide_by(shape.warps);
  work.threads = divide_by(shape.threads);

  const cuda::pinned_memory results;
  auto* const found = results.as<std::uint64_t>();
  work.found = found;
  find(work, stream);
  const auto nnz = static_cast<std::int64_t>(found[num_nonzeros]);
  cuda::check_offsets({static_cast<std::int64_t>(found[first_offset]), nnz, found[decrease], found[out_of_range]},
                      matrix);
  cuda::check_indices(found[index_outside], nnz, matrix);
  if (found[unsorted] != 0) {
    const cuda::pooled_memory sorted = cuda::sort_columns(matrix, nnz, stream);
    work.indices = {sorted.data(), false};
    find(work, stream);
  }
  write_features(statistics_of(found, matrix, work, shape), values);
}

}  // namespace warploom
