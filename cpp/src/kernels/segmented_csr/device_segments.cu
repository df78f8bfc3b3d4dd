#include "device/algorithms.hpp"
#include "device/workspace.hpp"
#include "kernels/segmented_csr/device_segments.hpp"

namespace warploom::cuda {
namespace {

constexpr int threads_per_block = 256;

// The nonzeros of a segment of a row, at most.
__device__ int longest_segment(int length, int segment_length) {
  return max(segment_length, (length + max_segments_per_row - 1) / max_segments_per_row);
}

// Segments, and rows that are cut: numbers below 2^31 in one word, so that one scan adds up both.
struct segment_counts {
  std::int64_t word;

  __host__ __device__ static segment_counts of(int segments, bool cut) {
    return {std::int64_t{cut} << 32 | static_cast<std::uint32_t>(segments)};
  }
  __host__ __device__ std::int32_t segments() const { return static_cast<std::int32_t>(word); }
  __host__ __device__ std::int32_t cut() const { return static_cast<std::int32_t>(word >> 32); }
};

// Of each row; none behind the last one.
__global__ void count_segments_kernel(const std::int32_t* __restrict__ indptr, unsigned num_rows, int segment_length,
                                      segment_counts* __restrict__ counts) {
  const unsigned row = blockIdx.x * threads_per_block + threadIdx.x;
  if (row > num_rows) return;
  const int length = row < num_rows ? indptr[row + 1] - indptr[row] : 0;
  const int most = longest_segment(length, segment_length);
  const int count = length > most ? (length - 1) / most + 1 : 1;
  counts[row] = segment_counts::of(row < num_rows ? count : 0, count > 1);
}

struct segments_task {
  const std::int32_t* indptr;
  const std::int32_t* row_ids;
  unsigned num_rows;
  int segment_length;
  const segment_counts* before;  // of all rows before each; null: no row is cut
  int4* segments;
  std::int32_t* split_of_partial;
  row_segments* splits;
};

__global__ void write_segments_kernel(const segments_task task) {
  const unsigned p = blockIdx.x * threads_per_block + threadIdx.x;
  if (p >= task.num_rows) return;
  const int begin = task.indptr[p];
  const int length = task.indptr[p + 1] - begin;
  const int row = task.row_ids ? task.row_ids[p] : static_cast<int>(p);
  const segment_counts before = task.before ? task.before[p] : segment_counts::of(static_cast<int>(p), false);
  const int first = before.segments();
  const int most = longest_segment(length, task.segment_length);
  if (length <= most) {
    task.segments[first] = {row, begin, length, -1};
    return;
  }
  const int split = before.cut();
  const int first_partial = first - (static_cast<int>(p) - split);  // rows that are not cut have one segment each
  const int count = (length - 1) / most + 1;
  for (int i = 0; i < count; ++i) {
    task.segments[first + i] = {row, begin + i * most, min(most, length - i * most), first_partial + i};
    task.split_of_partial[first_partial + i] = split;
  }
  task.splits[split] = {first_partial, count};
}

__global__ void lengths_kernel(const int4* __restrict__ segments, std::int64_t size,
                               std::uint32_t* __restrict__ lengths, std::int32_t* __restrict__ positions) {
  const std::int64_t i = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (i >= size) return;
  lengths[i] = static_cast<std::uint32_t>(segments[i].z);
  positions[i] = static_cast<std::int32_t>(i);
}

__global__ void gather_kernel(const int4* __restrict__ from, const std::int32_t* __restrict__ positions,
                              std::int64_t size, int4* __restrict__ to) {
  const std::int64_t i = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (i < size) to[i] = from[positions[i]];
}

void sort_by_length(const int4* segments, int4* sorted, std::int64_t size, std::int64_t longest, cudaStream_t stream) {
  const pooled_memory lengths(size * sizeof(std::uint32_t), stream),
      sorted_lengths(size * sizeof(std::uint32_t), stream);
  const pooled_memory positions(size * sizeof(std::int32_t), stream), order(size * sizeof(std::int32_t), stream);
  lengths_kernel<<<blocks_for(size), threads_per_block, 0, stream>>>(segments, size, lengths.as<std::uint32_t>(),
                                                                     positions.as<std::int32_t>());
  check_launch("lengths_kernel");
  sort_pairs_descending(lengths.as<std::uint32_t>(), sorted_lengths.as<std::uint32_t>(), positions.as<std::int32_t>(),
                        order.as<std::int32_t>(), size, bits_for(longest), stream);
  gather_kernel<<<blocks_for(size), threads_per_block, 0, stream>>>(segments, order.as<std::int32_t>(), size, sorted);
  check_launch("gather_kernel");
}

}  // namespace

segment_list::segment_list(const device_csr& matrix, const std::int32_t* row_ids, int segment_length,
                           bool longest_first, const device_allocator& allocate)
    : segment_list(matrix.indptr32(), matrix.num_rows(), matrix.summary().longest_row, row_ids, segment_length,
                   longest_first, matrix.stream(), allocate) {}

segment_list::segment_list(const std::int32_t* indptr, std::int64_t all_rows, std::int64_t longest_row,
                           const std::int32_t* row_ids, int segment_length, bool longest_first, cudaStream_t stream,
                           const device_allocator& allocate) {
  const auto num_rows = static_cast<unsigned>(all_rows);
  if (num_rows == 0) return;
  const bool cuts = longest_row > segment_length;
  const pooled_memory counts(cuts ? (num_rows + std::size_t{1}) * sizeof(segment_counts) : 0, stream);
  segment_counts all = segment_counts::of(static_cast<int>(num_rows), false);
  if (cuts) {
    count_segments_kernel<<<blocks_for(std::int64_t{num_rows} + 1), threads_per_block, 0, stream>>>(
        indptr, num_rows, segment_length, counts.as<segment_counts>());
    check_launch("count_segments_kernel");
    exclusive_scan(counts.as<std::int64_t>(), counts.as<std::int64_t>(), std::int64_t{num_rows} + 1, stream);
    all = read_back(counts.as<segment_counts>() + num_rows, stream);
  }
  const std::int32_t num_segments = all.segments(), num_cut = all.cut();
  const std::int32_t num_partials = num_segments - (static_cast<std::int32_t>(num_rows) - num_cut);
  segments = {static_cast<std::size_t>(num_segments), allocate};
  split_of_partial = {static_cast<std::size_t>(num_partials), allocate};
  splits = {static_cast<std::size_t>(num_cut), allocate};
  const pooled_memory in_row_order(longest_first ? segments.bytes() : 0, stream);
  write_segments_kernel<<<blocks_for(num_rows), threads_per_block, 0, stream>>>(
      {indptr, row_ids, num_rows, segment_length, counts.as<segment_counts>(),
       longest_first ? in_row_order.as<int4>() : segments.data(), split_of_partial.data(), splits.data()});
  check_launch("write_segments_kernel");
  if (longest_first) sort_by_length(in_row_order.as<int4>(), segments.data(), num_segments, longest_row, stream);
}

}  // namespace warploom::cuda
