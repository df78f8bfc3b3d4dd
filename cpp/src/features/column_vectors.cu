// The features of column vectors of a matrix in GPU memory: memory is cleared, four kernels run, and one small copy
// comes back.
//
// Columns of a window of 16 rows are counted in a table: by a warp where the window has few nonzeros, else by a thread
// block for each part of the columns. Where it has very many, each nonzero looks for its column in the other rows,
// which must ascend; a matrix where they do not is then counted again with its columns sorted. The last kernel adds up
// windows. All counts are integers: they do not depend on any order.
#include <algorithm>
#include <memory>
#include <optional>

#include "device/device_csr.hpp"
#include "features/column_vectors.hpp"
#include "features/device_boundary.hpp"
#include "features/divider.hpp"
#include "kernels/device/rows.cuh"
#include "kernels/device/warp.cuh"

namespace warploom {
namespace {

constexpr int threads_per_block = 256;
constexpr int warps_per_block = threads_per_block / 32;
constexpr int resident_blocks = 5;  // on a multiprocessor

struct counts_found {
  unsigned long long vectors_8, single_8, dense_8;
  unsigned long long vectors_16, single_16, dense_16;
  unsigned long long unsorted;  // not 0 if a row's columns descend
  unsigned long long parts;     // of windows that warps have left to thread blocks
  unsigned long long pieces;    // of windows that are left to searches
};

// Columns of a window of 16 rows, or nonzeros of it, one after the other.
struct window_part {
  std::uint32_t window;
  std::uint32_t number;
};

struct task {
  std::int64_t num_rows;
  std::int64_t nnz;
  cuda::offsets_view indptr;
  const std::int32_t* indices;
  counts_found* found;
  std::uint32_t* vectors_8;   // of each window of 8 rows
  std::uint32_t* vectors_16;  // of each window of 16 rows
  window_part* parts;         // [found->parts]
  window_part* pieces;        // [found->pieces]
};

// Where the nonzeros of a window of 16 rows begin, those of its lower 8 rows, and where they end.
struct window_offsets {
  std::int64_t begin, middle, end;

  __device__ window_offsets(const task& work, std::int64_t window)
      : begin(work.indptr[16 * window]),
        middle(work.indptr[min(16 * window + 8, work.num_rows)]),
        end(work.indptr[min(16 * window + 16, work.num_rows)]) {}

  __device__ std::int64_t size() const { return end - begin; }
};

__device__ __forceinline__ void add_warp(unsigned long long* to, unsigned long long sum) {
  const unsigned long long all = cuda::group_sum<32>(sum);
  if (threadIdx.x % 32 == 0 && all != 0) atomicAdd(to, all);
}

// ---- Tables of columns

constexpr int log_places_of_warp = 9;
constexpr int log_places_of_block = 12;
static_assert(warps_per_block << log_places_of_warp == 1 << log_places_of_block);
constexpr std::int64_t few_nonzeros = 448;  // a warp's: most have some columns in common
constexpr std::int64_t nonzeros_of_part = 3 << (log_places_of_block - 2);
constexpr std::int64_t many_nonzeros = 1 << 16;  // each part reads the whole window
constexpr int nonzeros_of_piece = 8 * threads_per_block;
constexpr int loads_at_once = 4;
constexpr std::uint32_t no_column = ~std::uint32_t{0};
constexpr std::uint32_t one_below = 1u << 16;

// Columns, and how many entries each has: in the upper 8 rows in the lower half of a word, in the others in the upper
// half.
struct column_table {
  std::uint32_t* columns;
  std::uint32_t* entries;
  int log_places;

  __device__ void clear(int thread, int threads) const {
    for (int place = thread; place >> log_places == 0; place += threads) {
      columns[place] = no_column;
      entries[place] = 0;
    }
  }

  // The place of a column, which takes a free one; -1 where none is.
  __device__ int place_of(std::uint32_t column, std::uint32_t hash) const {
    const int last = (1 << log_places) - 1;
    int place = static_cast<int>(hash >> (32 - log_places));
    for (int tried = 0; tried <= last; ++tried) {
      std::uint32_t holder = *static_cast<const volatile std::uint32_t*>(columns + place);
      if (holder == no_column) holder = atomicCAS(columns + place, no_column, column);
      if (holder == no_column || holder == column) return place;
      place = (place + 1) & last;
    }
    return -1;
  }
};

// Which columns are counted: those of a part, and of these those of a pass, by bits of two hashes. The second one has
// every value once, so that in enough passes any columns fit.
struct column_choice {
  static constexpr int first_bit = 15;  // of a part; those that say the place in a table come above
  int log_parts = 0;
  std::uint32_t part = 0;
  int log_passes = 0;
  std::uint32_t pass = 0;

  __device__ static std::uint32_t hash_of(std::uint32_t column) { return column * 2654435769u; }

  __device__ static std::uint32_t other_hash_of(std::uint32_t column) {
    column = (column ^ column >> 16) * 0x85ebca6bu;
    column = (column ^ column >> 13) * 0xc2b2ae35u;
    return column ^ column >> 16;
  }

  __device__ bool has(std::uint32_t column, std::uint32_t hash) const {
    if ((hash >> first_bit & ((1u << log_parts) - 1)) != part) return false;
    return log_passes == 0 || (other_hash_of(column) & ((1u << log_passes) - 1)) == pass;
  }
};

// Of the entries that a thread has seen. It takes back what another one has counted as the only entry of a vector.
struct entry_counts {
  std::uint32_t vectors_8 = 0;  // as in column_table::entries
  std::uint32_t vectors_16 = 0;
  std::int32_t single_8 = 0;
  std::int32_t single_16 = 0;

  __device__ void add(std::uint32_t entry, std::uint32_t before) {
    const std::uint32_t above = before % one_below, below = before / one_below;
    const std::uint32_t in_half = entry == 1 ? above : below;
    if (in_half == 0) vectors_8 += entry;
    if (above + below == 0) ++vectors_16;
    single_8 += (in_half == 0) - (in_half == 1);
    single_16 += (above + below == 0) - (above + below == 1);
  }
};

// Counts the nonzeros of a window in a cleared table that so many threads share. False where it had no place for one.
__device__ __forceinline__ bool count_entries(const std::int32_t* __restrict__ indices, const window_offsets& window,
                                              const column_choice& chosen, const column_table& table, int thread,
                                              int threads, entry_counts& counts) {
  bool fits = true;
  for (std::int64_t first = window.begin + thread; first < window.end; first += threads * loads_at_once) {
    std::uint32_t columns[loads_at_once];
#pragma unroll
    for (int u = 0; u < loads_at_once; ++u) {
      const std::int64_t j = first + threads * u;
      columns[u] = j < window.end ? static_cast<std::uint32_t>(indices[j]) : no_column;
    }
#pragma unroll
    for (int u = 0; u < loads_at_once; ++u) {
      const std::uint32_t hash = column_choice::hash_of(columns[u]);
      if (columns[u] == no_column || !chosen.has(columns[u], hash)) continue;
      const int place = table.place_of(columns[u], hash);
      if (place < 0) {
        fits = false;
      } else {
        const std::uint32_t entry = first + threads * u < window.middle ? 1 : one_below;
        counts.add(entry, atomicAdd(table.entries + place, entry));
      }
    }
  }
  return fits;
}

// A warp for each window. One that has more than few nonzeros goes to a list.
__global__ void __launch_bounds__(threads_per_block, cuda::blocks_with_registers(threads_per_block, resident_blocks))
    count_windows_kernel(const task work) {
  __shared__ std::uint32_t columns[1 << log_places_of_block], entries[1 << log_places_of_block];
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const std::int64_t windows = (work.num_rows + 15) / 16;
  const std::int64_t stride = std::int64_t{gridDim.x} * warps_per_block;
  std::int64_t single_8 = 0, single_16 = 0;
  for (std::int64_t w = std::int64_t{blockIdx.x} * warps_per_block + warp; w < windows; w += stride) {
    const window_offsets window(work, w);
    if (window.size() == 0) continue;
    if (window.size() > few_nonzeros) {
      const bool searched = window.size() > many_nonzeros;
      const std::int64_t each = searched ? nonzeros_of_piece : nonzeros_of_part;
      auto count = static_cast<std::uint32_t>((window.size() + each - 1) / each);
      if (!searched && count > 1) count = 1u << (32 - __clz(static_cast<int>(count - 1)));  // by bits of a hash
      unsigned long long first = 0;
      if (lane == 0) {
        first = atomicAdd(searched ? &work.found->pieces : &work.found->parts, static_cast<unsigned long long>(count));
      }
      window_part* const list = (searched ? work.pieces : work.parts) + cuda::from_lane(first, 0);
      for (std::uint32_t i = lane; i < count; i += 32) list[i] = {static_cast<std::uint32_t>(w), i};
      continue;
    }
    const int log_places = min(log_places_of_warp, max(5, 32 - __clz(static_cast<int>(2 * window.size() - 1))));
    const int first_place = warp << log_places_of_warp;
    const column_table table{columns + first_place, entries + first_place, log_places};
    table.clear(lane, 32);
    cuda::sync_warp();
    entry_counts counts;
    count_entries(work.indices, window, {}, table, lane, 32, counts);
    cuda::sync_warp();  // before the table is cleared
    single_8 += counts.single_8;
    single_16 += counts.single_16;
    const std::uint32_t vectors_8 = cuda::group_sum<32>(counts.vectors_8);
    const std::uint32_t vectors_16 = cuda::group_sum<32>(counts.vectors_16);
    if (lane == 0) {
      work.vectors_8[2 * w] = vectors_8 % one_below;
      if (16 * w + 8 < work.num_rows) work.vectors_8[2 * w + 1] = vectors_8 / one_below;
      work.vectors_16[w] = vectors_16;
    }
  }
  add_warp(&work.found->single_8, static_cast<unsigned long long>(single_8));
  add_warp(&work.found->single_16, static_cast<unsigned long long>(single_16));
}
static_assert(few_nonzeros <= 1 << log_places_of_warp);  // so that all columns have a place

// A thread block for each part of a window.
__global__ void __launch_bounds__(threads_per_block, cuda::blocks_with_registers(threads_per_block, resident_blocks))
    count_parts_kernel(const task work) {
  __shared__ std::uint32_t columns[1 << log_places_of_block], entries[1 << log_places_of_block];
  const int thread = static_cast<int>(threadIdx.x);
  std::int64_t single_8 = 0, single_16 = 0;
  const unsigned long long parts = work.found->parts;
  for (unsigned long long i = blockIdx.x; i < parts; i += gridDim.x) {
    const window_part mine = work.parts[i];
    const window_offsets window(work, mine.window);
    const auto needed = static_cast<int>((window.size() + nonzeros_of_part - 1) / nonzeros_of_part);
    column_choice chosen;
    chosen.log_parts = needed > 1 ? 32 - __clz(needed - 1) : 0;
    chosen.part = mine.number;
    const auto about = static_cast<int>(window.size() >> chosen.log_parts);
    const int log_places = min(log_places_of_block, max(8, 32 - __clz(2 * about)));
    entry_counts counts;
    for (bool fits = false; !fits; chosen.log_passes += 2) {
      fits = true;
      counts = {};
      for (chosen.pass = 0; fits && chosen.pass >> chosen.log_passes == 0; ++chosen.pass) {
        const column_table table{columns, entries, chosen.log_passes == 0 ? log_places : log_places_of_block};
        table.clear(thread, threads_per_block);
        __syncthreads();
        fits = count_entries(work.indices, window, chosen, table, thread, threads_per_block, counts);
        fits = __syncthreads_and(fits) != 0;  // before the table is cleared
      }
    }
    single_8 += counts.single_8;
    single_16 += counts.single_16;
    // Entries of a thread fit the halves of a word, and those of a warp.
    const std::uint32_t vectors_8 = cuda::group_sum<32>(counts.vectors_8);
    const std::uint32_t vectors_16 = cuda::group_sum<32>(counts.vectors_16);
    if (thread % 32 == 0) {
      const std::uint32_t above = vectors_8 % one_below, below = vectors_8 / one_below;
      if (above != 0) atomicAdd(work.vectors_8 + 2 * mine.window, above);
      if (below != 0) atomicAdd(work.vectors_8 + 2 * mine.window + 1, below);
      if (vectors_16 != 0) atomicAdd(work.vectors_16 + mine.window, vectors_16);
    }
  }
  add_warp(&work.found->single_8, static_cast<unsigned long long>(single_8));
  add_warp(&work.found->single_16, static_cast<unsigned long long>(single_16));
}

static_assert(nonzeros_of_part << (32 - log_places_of_block - column_choice::first_bit) >= many_nonzeros);

// Parts, and pieces, that there can be.
std::int64_t most_parts(std::int64_t nnz) { return 2 * (nnz / nonzeros_of_part) + nnz / few_nonzeros + 1; }
std::int64_t most_pieces(std::int64_t nnz) { return nnz / nonzeros_of_piece + nnz / many_nonzeros + 1; }

// ---- Searches

// Adds to `counts[window]` the lanes with `condition`. Called by whole warps; a lane without it may have any window.
__device__ __forceinline__ void count_lanes(std::uint32_t* counts, std::int64_t window, bool same_window,
                                            bool condition) {
  if (same_window) {
    const unsigned having = cuda::ballot(condition);
    if (threadIdx.x % 32 == 0 && having != 0) atomicAdd(counts + window, static_cast<std::uint32_t>(__popc(having)));
  } else if (condition) {
    atomicAdd(counts + window, 1u);
  }
}

// At least five blocks: left to itself, the compiler takes 32 registers and spills.
__global__ void __launch_bounds__(threads_per_block, cuda::blocks_with_registers(threads_per_block, 5))
    count_pieces_kernel(const task work) {
  __shared__ std::int64_t offsets[17];  // of the window's rows
  std::uint32_t single_8 = 0, single_16 = 0;
  const unsigned long long pieces = work.found->pieces;
  for (unsigned long long i = blockIdx.x; i < pieces; i += gridDim.x) {
    const window_part mine = work.pieces[i];
    const std::int64_t first_row = 16 * std::int64_t{mine.window};
    __syncthreads();  // the offsets of the piece before have been read
    if (threadIdx.x <= 16) offsets[threadIdx.x] = work.indptr[min(first_row + threadIdx.x, work.num_rows)];
    __syncthreads();
    const std::int64_t begin = offsets[0] + std::int64_t{mine.number} * nonzeros_of_piece;
    const std::int64_t end = min(begin + nonzeros_of_piece, offsets[16]);
    for (std::int64_t first = begin; first < end; first += threads_per_block) {
      const std::int64_t j = first + threadIdx.x;
      std::int64_t row = -1;
      vector_role role;
      if (j < end) {
        int before = 0;  // rows of the window that end before it
#pragma unroll
        for (int step = 8; step > 0; step /= 2) {
          if (offsets[before + step] <= j) before += step;
        }
        row = first_row + before;
        if (j > offsets[before] && work.indices[j - 1] > work.indices[j]) work.found->unsorted = 1;
        role = role_of_nonzero(work.indptr, work.indices, work.num_rows, row, j);
      }
      single_8 += role.single_of_8;
      single_16 += role.single_of_16;
      const bool same = cuda::same_in_all_lanes(static_cast<unsigned long long>(row >> 3));
      count_lanes(work.vectors_8, row >> 3, same, role.first_of_8);
      count_lanes(work.vectors_16, row >> 4, same, role.first_of_16);
    }
  }
  add_warp(&work.found->single_8, single_8);
  add_warp(&work.found->single_16, single_16);
}

// A thread for each window of 16 rows.
__global__ void __launch_bounds__(threads_per_block) add_windows_kernel(const task work) {
  counts_found sum{};
  const std::int64_t windows = (work.num_rows + 15) / 16;
  const std::int64_t stride = std::int64_t{gridDim.x} * threads_per_block;
  for (std::int64_t w = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x; w < windows; w += stride) {
    const window_offsets window(work, w);
    const std::int64_t of_upper = window.middle - window.begin, of_lower = window.end - window.middle;
    const std::uint32_t upper = work.vectors_8[2 * w];
    const std::uint32_t lower = 16 * w + 8 < work.num_rows ? work.vectors_8[2 * w + 1] : 0;
    const std::uint32_t both = work.vectors_16[w];
    sum.vectors_8 += std::uint64_t{upper} + lower;
    sum.vectors_16 += both;
    if (is_dense_window(upper, of_upper)) sum.dense_8 += of_upper;
    if (is_dense_window(lower, of_lower)) sum.dense_8 += of_lower;
    if (is_dense_window(both, window.size())) sum.dense_16 += window.size();
  }
  add_warp(&work.found->vectors_8, sum.vectors_8);
  add_warp(&work.found->vectors_16, sum.vectors_16);
  add_warp(&work.found->dense_8, sum.dense_8);
  add_warp(&work.found->dense_16, sum.dense_16);
}

// What kernels use until they are done.
class counting_run {
 public:
  explicit counting_run(const device_csr& matrix);

  std::vector<double> values();

 private:
  void enqueue();

  device_csr_arrays matrix_;
  cudaStream_t stream_;
  task work_{};
  std::optional<cuda::pooled_memory> memory_;
  cuda::pinned_memory results_;
  cuda::enqueued_work enqueued_;
};

counting_run::counting_run(const device_csr& matrix)
    : matrix_(arrays_of(matrix)), stream_(matrix.stream()), enqueued_(matrix.stream()) {
  work_.num_rows = matrix.num_rows();
  work_.nnz = matrix.nnz();
  work_.indptr = {matrix_.indptr, matrix_.wide_indptr};
  work_.indices = matrix.indices();
  enqueue();
}

// The kernels, and what they found on its way back.
void counting_run::enqueue() {
  const std::int64_t windows_8 = ceil_divide(work_.num_rows, 8), windows_16 = ceil_divide(work_.num_rows, 16);
  const std::size_t cleared = sizeof(counts_found) + (windows_8 + windows_16) * sizeof(std::uint32_t);
  const std::size_t up_to_lists = ceil_divide(cleared, sizeof(window_part)) * sizeof(window_part);
  const std::int64_t parts = most_parts(work_.nnz), pieces = most_pieces(work_.nnz);
  memory_.emplace(up_to_lists + (parts + pieces) * sizeof(window_part), stream_);
  work_.found = memory_->as<counts_found>();
  work_.vectors_8 = reinterpret_cast<std::uint32_t*>(work_.found + 1);
  work_.vectors_16 = work_.vectors_8 + windows_8;
  work_.parts = reinterpret_cast<window_part*>(memory_->data() + up_to_lists);
  work_.pieces = work_.parts + parts;
  WARPLOOM_CUDA_CHECK(cudaMemsetAsync(memory_->data(), 0, cleared, stream_));
  const std::int64_t multiprocessors = cuda::device_attribute(cudaDevAttrMultiProcessorCount);
  const auto blocks = [&](std::int64_t wanted) {
    return static_cast<unsigned>(std::min(wanted, resident_blocks * multiprocessors));
  };
  count_windows_kernel<<<blocks(ceil_divide(windows_16, warps_per_block)), threads_per_block, 0, stream_>>>(work_);
  cuda::check_launch("count_windows_kernel");
  if (work_.nnz > few_nonzeros) {
    count_parts_kernel<<<blocks(parts), threads_per_block, 0, stream_>>>(work_);
    cuda::check_launch("count_parts_kernel");
  }
  if (work_.nnz > many_nonzeros) {
    count_pieces_kernel<<<blocks(pieces), threads_per_block, 0, stream_>>>(work_);
    cuda::check_launch("count_pieces_kernel");
  }
  const std::int64_t wanted = ceil_divide(windows_16, threads_per_block);
  const auto adding = static_cast<unsigned>(std::min(wanted, 4 * multiprocessors));
  add_windows_kernel<<<adding, threads_per_block, 0, stream_>>>(work_);
  cuda::check_launch("add_windows_kernel");
  WARPLOOM_CUDA_CHECK(
      cudaMemcpyAsync(results_.as<counts_found>(), work_.found, sizeof(counts_found), cudaMemcpyDeviceToHost, stream_));
}

vector_counts signed_counts(unsigned long long vectors, unsigned long long single, unsigned long long dense) {
  return {static_cast<std::int64_t>(vectors), static_cast<std::int64_t>(single), static_cast<std::int64_t>(dense)};
}

std::vector<double> counting_run::values() {
  enqueued_.wait();
  const counts_found& found = *results_.as<counts_found>();
  if (found.unsorted != 0) {
    const cuda::pooled_memory sorted = cuda::sort_columns(matrix_, work_.nnz, stream_);
    work_.indices = sorted.as<std::int32_t>();
    enqueued_.goes_on();
    enqueue();
    enqueued_.wait();
  }
  return column_vector_features(signed_counts(found.vectors_8, found.single_8, found.dense_8),
                                signed_counts(found.vectors_16, found.single_16, found.dense_16), work_.nnz);
}

}  // namespace

pending_features start_cuda_column_vector_features(const device_csr& matrix) {
  if (matrix.nnz() == 0) return [] { return column_vector_features({}, {}, 0); };
  return [run = std::make_shared<counting_run>(matrix)] { return run->values(); };
}

}  // namespace warploom
