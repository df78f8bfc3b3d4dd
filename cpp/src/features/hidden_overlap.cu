// What rows share that use a column one after the other, of a matrix in GPU memory: three kernels, the last of which
// writes its results to host memory. The second one reads the column indices once, which is what it takes for large
// matrices.
//
// Sampled columns are in a hash table. Nearly all nonzeros are of other columns: a filter tells that with one read of
// shared memory. Columns that are used often would otherwise keep the memory of their slot busy: each thread block
// notes in which of its pieces it has reported a slot, and reports nothing that comes after it.
#include <algorithm>
#include <atomic>
#include <memory>

#include "device/device_csr.hpp"
#include "features/device_boundary.hpp"
#include "features/divider.hpp"
#include "features/hidden_overlap.hpp"
#include "kernels/device/rows.cuh"
#include "kernels/device/warp.cuh"
#include "warploom/locality.hpp"

namespace warploom {
namespace {

using overlap::num_samples;

constexpr int log_slots = 13;
constexpr int num_slots = 1 << log_slots;
constexpr int log_words = 12;
constexpr int num_words = 1 << log_words;
static_assert(num_samples <= num_slots / 2);
constexpr std::int32_t no_column = -1;
constexpr unsigned long long no_place = ~0ull;

// What is known of the sampled columns, in GPU memory. All bits are set at first.
struct slot_table {
  std::int32_t columns[num_slots];     // no_column: the slot is empty
  std::uint32_t samples[num_slots];    // the first sample in the column
  unsigned long long next[num_slots];  // place of the next nonzero in the column
  std::uint32_t filter[num_words];     // two bits of a word for each column, which are cleared
};

__device__ __forceinline__ std::uint32_t hash_of(std::int32_t column) {
  return static_cast<std::uint32_t>(column) * 0x9e3779b1u;
}
__device__ __forceinline__ std::uint32_t word_of(std::uint32_t hash) { return hash >> (32 - log_words); }
__device__ __forceinline__ std::uint32_t bits_of(std::uint32_t hash) {
  return 1u << (hash >> 15 & 31) | 1u << (hash >> 10 & 31);
}
__device__ __forceinline__ std::uint32_t first_slot(std::uint32_t hash) { return hash >> (32 - log_slots); }
__device__ __forceinline__ std::uint32_t slot_after(std::uint32_t slot) { return (slot + 1) % num_slots; }

// ---- Sampling

constexpr int sampling_threads = 128;
static_assert(num_samples % sampling_threads == 0);

__global__ void __launch_bounds__(sampling_threads)
    sample_columns_kernel(std::int64_t nnz, const std::int32_t* __restrict__ indices, slot_table* table) {
  const std::uint32_t sample = blockIdx.x * sampling_threads + threadIdx.x;
  const std::int32_t column = indices[overlap::place_of_sample(sample, nnz)];
  const std::uint32_t hash = hash_of(column);
  atomicAnd(table->filter + word_of(hash), ~bits_of(hash));
  std::uint32_t slot = first_slot(hash);
  for (;; slot = slot_after(slot)) {
    const std::int32_t before = atomicCAS(table->columns + slot, no_column, column);
    if (before == no_column || before == column) break;
  }
  atomicMin(table->samples + slot, sample);
}

// ---- The next nonzeros in the sampled columns

constexpr int scanning_threads = 768;
constexpr int scanning_blocks = 2;      // on a multiprocessor
constexpr int nonzeros_per_thread = 8;  // independent loads
constexpr int nonzeros_per_piece = scanning_threads * nonzeros_per_thread;

// In shared memory.
struct scan_tables {
  std::int32_t columns[num_slots];
  std::uint32_t filter[num_words];
  std::uint32_t reported[num_slots];  // the first piece, from 1, in which the block has reported the slot
};
constexpr std::uint32_t not_reported = ~0u;
constexpr std::uint32_t nothing_to_report = 0;  // the sample comes after all that the block reads

// The block reads neighbouring pieces.
__global__ void __launch_bounds__(scanning_threads, cuda::blocks_with_registers(scanning_threads, scanning_blocks))
    find_next_kernel(std::int64_t nnz, std::int64_t nonzeros_per_block, const std::int32_t* __restrict__ indices,
                     slot_table* __restrict__ table) {
  extern __shared__ scan_tables shared[];
  scan_tables& local = shared[0];
  const std::int64_t begin = blockIdx.x * nonzeros_per_block;
  const std::int64_t end = min(begin + nonzeros_per_block, nnz);
  for (int slot = threadIdx.x; slot < num_slots; slot += scanning_threads) {
    local.columns[slot] = table->columns[slot];
    const bool reports = local.columns[slot] != no_column && overlap::place_of_sample(table->samples[slot], nnz) < end;
    local.reported[slot] = reports ? not_reported : nothing_to_report;
  }
  for (int word = threadIdx.x; word < num_words; word += scanning_threads) local.filter[word] = table->filter[word];
  __syncthreads();

  volatile const std::uint32_t* const reported = local.reported;
  std::uint32_t piece = 1;
  for (std::int64_t first = begin + threadIdx.x; first < end; first += nonzeros_per_piece, ++piece) {
    std::int32_t columns[nonzeros_per_thread];
#pragma unroll
    for (int u = 0; u < nonzeros_per_thread; ++u) {
      const std::int64_t j = first + u * scanning_threads;
      columns[u] = j < end ? indices[j] : no_column;
    }
#pragma unroll
    for (int u = 0; u < nonzeros_per_thread; ++u) {
      const std::uint32_t hash = hash_of(columns[u]);
      if ((local.filter[word_of(hash)] & bits_of(hash)) != 0 || columns[u] == no_column) continue;
      std::uint32_t slot = first_slot(hash);
      std::int32_t found = local.columns[slot];
      while (found != columns[u] && found != no_column) {
        slot = slot_after(slot);
        found = local.columns[slot];
      }
      if (found == no_column || reported[slot] < piece) continue;
      const std::int64_t j = first + u * scanning_threads;
      if (j <= overlap::place_of_sample(table->samples[slot], nnz)) continue;
      atomicMin(table->next + slot, static_cast<unsigned long long>(j));
      atomicMin(local.reported + slot, piece);
    }
  }
}

// ---- Comparing rows, a warp for each pair

constexpr int comparing_threads = 256;
constexpr int comparing_warps = comparing_threads / 32;
constexpr int comparing_blocks = 512;
constexpr int log_set = 10;  // at least twice the columns of two windows
static_assert(1 << log_set >= 2 * (4 * overlap::reach));

struct block_counts {
  std::uint32_t common;
  std::uint32_t possible;
};
static_assert(comparing_blocks * sizeof(block_counts) <= cuda::pinned_memory::bytes);

// The row of a nonzero: the last one that begins at it or before it. All lanes ask for the same.
__device__ __forceinline__ std::int64_t row_of(const cuda::offsets_view& indptr, std::int64_t num_rows,
                                               std::int64_t place) {
  std::int64_t first = 0;
  std::int64_t last = num_rows;  // one that begins after it
  while (last - first > 1) {
    const std::int64_t length = last - first;
    const auto probe = [&](int lane) { return first + length * (lane + 1) / 33; };
    const int before = __popc(cuda::ballot(indptr[probe(static_cast<int>(cuda::lane_id()))] <= place));
    const std::int64_t lower = before > 0 ? probe(before - 1) : first;
    if (before < 32) last = probe(before);
    first = lower;
  }
  return first;
}

constexpr std::uint32_t empty = ~0u;
constexpr std::uint32_t in_second = 1u << 31;  // beside a column of a set: the second row has it

struct set_counts {
  std::uint32_t first = 0;   // distinct columns of the first row
  std::uint32_t second = 0;  // of the second one
  std::uint32_t common = 0;
};

// Adds up over lanes what these counts are of their nonzeros. `set` is shared memory of the warp.
__device__ __forceinline__ set_counts count_distinct(const std::int32_t* __restrict__ indices, const overlap::window& a,
                                                     const overlap::window& b, std::uint32_t* set) {
  const auto both = static_cast<unsigned>((a.end - a.begin) + (b.end - b.begin));
  const int log_size = max(5, 32 - __clz(2 * both - 1));
  const std::uint32_t last = (1u << log_size) - 1;
  for (std::uint32_t i = cuda::lane_id(); i <= last; i += 32) set[i] = empty;
  cuda::sync_warp();
  set_counts found;
  for (std::int64_t j = a.begin + cuda::lane_id(); j < a.end; j += 32) {
    const auto column = static_cast<std::uint32_t>(indices[j]);
    for (std::uint32_t i = hash_of(indices[j]) >> (32 - log_size);; i = (i + 1) & last) {
      const std::uint32_t before = atomicCAS(set + i, empty, column);
      found.first += before == empty;
      if (before == empty || before == column) break;
    }
  }
  cuda::sync_warp();
  for (std::int64_t j = b.begin + cuda::lane_id(); j < b.end; j += 32) {
    const auto column = static_cast<std::uint32_t>(indices[j]);
    for (std::uint32_t i = hash_of(indices[j]) >> (32 - log_size);; i = (i + 1) & last) {
      const std::uint32_t before = atomicCAS(set + i, empty, column | in_second);
      if (before == empty) {
        ++found.second;
        break;
      }
      if ((before & ~in_second) != column) continue;
      if ((before & in_second) == 0 && (atomicOr(set + i, in_second) & in_second) == 0) ++found.common;
      break;
    }
  }
  cuda::sync_warp();  // before the set is used again
  found.first = cuda::group_sum<32>(found.first);
  found.common = cuda::group_sum<32>(found.common);
  found.second = cuda::group_sum<32>(found.second) + found.common;
  return found;
}

__global__ void __launch_bounds__(comparing_threads)
    compare_rows_kernel(std::int64_t num_rows, std::int64_t nnz, const cuda::offsets_view indptr,
                        const std::int32_t* __restrict__ indices, const slot_table* __restrict__ table,
                        block_counts* __restrict__ of_blocks) {
  __shared__ std::uint32_t sets[comparing_warps][1 << log_set];
  __shared__ block_counts of_warps[comparing_warps];
  const int warp = static_cast<int>(threadIdx.x / 32);
  block_counts sum{};
  for (unsigned slot = blockIdx.x * comparing_warps + warp; slot < num_slots; slot += gridDim.x * comparing_warps) {
    if (table->next[slot] == no_place) continue;
    const std::int64_t place = overlap::place_of_sample(table->samples[slot], nnz);
    const auto next = static_cast<std::int64_t>(table->next[slot]);
    const std::int64_t a = row_of(indptr, num_rows, place), b = row_of(indptr, num_rows, next);
    if (a == b) continue;  // an entry that repeats
    const set_counts found =
        count_distinct(indices, {indptr[a], indptr[a + 1], place}, {indptr[b], indptr[b + 1], next}, sets[warp]);
    sum.common += found.common - 1;
    sum.possible += min(found.first, found.second) - 1;
  }
  if (threadIdx.x % 32 == 0) of_warps[warp] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int other = 1; other < comparing_warps; ++other) {
    sum.common += of_warps[other].common;
    sum.possible += of_warps[other].possible;
  }
  of_blocks[blockIdx.x] = sum;
}

// What kernels use until they are done.
class overlap_run {
 public:
  explicit overlap_run(const device_csr& matrix);

  double value();

 private:
  cudaStream_t stream_;
  cuda::pooled_memory memory_;
  cuda::pinned_memory results_;
  cuda::enqueued_work enqueued_;
};

// Once for each device: it takes as long as a launch.
void allow_shared_memory() {
  static std::atomic<std::uint64_t> allowed{0};
  const int device = cuda::current_device();
  const std::uint64_t bit = device < 64 ? std::uint64_t{1} << device : 0;
  if ((allowed & bit) != 0) return;
  WARPLOOM_CUDA_CHECK(
      cudaFuncSetAttribute(find_next_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int{sizeof(scan_tables)}));
  allowed |= bit;
}

overlap_run::overlap_run(const device_csr& matrix)
    : stream_(cuda::feature_stream(cuda::current_device())), memory_(sizeof(slot_table), stream_), enqueued_(stream_) {
  const std::int64_t nnz = matrix.nnz();
  const device_csr_arrays arrays = arrays_of(matrix);
  auto* const table = memory_.as<slot_table>();
  WARPLOOM_CUDA_CHECK(cudaMemsetAsync(table, 0xff, sizeof(slot_table), stream_));
  sample_columns_kernel<<<num_samples / sampling_threads, sampling_threads, 0, stream_>>>(nnz, matrix.indices(), table);
  cuda::check_launch("sample_columns_kernel");

  constexpr std::size_t shared_bytes = sizeof(scan_tables);
  allow_shared_memory();
  const std::int64_t pieces = ceil_divide(nnz, nonzeros_per_piece);
  const std::int64_t resident = scanning_blocks * cuda::device_attribute(cudaDevAttrMultiProcessorCount);
  const std::int64_t pieces_per_block = ceil_divide(pieces, resident);
  const auto scanning = static_cast<unsigned>(ceil_divide(pieces, pieces_per_block));
  find_next_kernel<<<scanning, scanning_threads, shared_bytes, stream_>>>(nnz, pieces_per_block * nonzeros_per_piece,
                                                                          matrix.indices(), table);
  cuda::check_launch("find_next_kernel");
  compare_rows_kernel<<<comparing_blocks, comparing_threads, 0, stream_>>>(
      matrix.num_rows(), nnz, {arrays.indptr, arrays.wide_indptr}, matrix.indices(), table,
      results_.as<block_counts>());
  cuda::check_launch("compare_rows_kernel");
}

double overlap_run::value() {
  enqueued_.wait();
  overlap::counts sum;
  for (int block = 0; block < comparing_blocks; ++block) {
    sum.common += results_.as<block_counts>()[block].common;
    sum.possible += results_.as<block_counts>()[block].possible;
  }
  return overlap::value_of(sum);
}

}  // namespace

std::function<double()> start_cuda_hidden_overlap(const device_csr& matrix, std::int64_t fewest_nonzeros) {
  if (matrix.nnz() < fewest_nonzeros || matrix.nnz() == 0) return [] { return not_measured; };
  return [run = std::make_shared<overlap_run>(matrix)] { return run->value(); };
}

double compute_cuda_hidden_overlap(const device_csr& matrix, std::int64_t fewest_nonzeros) {
  return start_cuda_hidden_overlap(matrix, fewest_nonzeros)();
}

}  // namespace warploom
