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

// The number of segments of each row, and whether it is cut; 0 behind the last row.
__global__ void count_segments_kernel(const std::int32_t* __restrict__ indptr, unsigned num_rows, int segment_length,
                                      std::int32_t* __restrict__ segments, std::int32_t* __restrict__ cut) {
  const unsigned row = blockIdx.x * threads_per_block + threadIdx.x;
  if (row > num_rows) return;
  const int length = row < num_rows ? indptr[row + 1] - indptr[row] : 0;
  const int most = longest_segment(length, segment_length);
  const int count = length > most ? (length - 1) / most + 1 : 1;
  segments[row] = row < num_rows ? count : 0;
  cut[row] = count > 1;
}

struct segments_task {
  const std::int32_t* indptr;
  const std::int32_t* row_ids;
  unsigned num_rows;
  int segment_length;
  const std::int32_t* first_segment;  // null: no row is cut
  const std::int32_t* cut_before;
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
  const int first = task.first_segment ? task.first_segment[p] : static_cast<int>(p);
  const int most = longest_segment(length, task.segment_length);
  if (length <= most) {
    task.segments[first] = {row, begin, length, -1};
    return;
  }
  const int split = task.cut_before[p];
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
  const std::size_t count_bytes = cuts ? (num_rows + std::size_t{1}) * sizeof(std::int32_t) : 0;
  const pooled_memory first(count_bytes, stream), cut_before(count_bytes, stream);
  std::int32_t num_segments = static_cast<std::int32_t>(num_rows), num_cut = 0;
  if (cuts) {
    count_segments_kernel<<<blocks_for(std::int64_t{num_rows} + 1), threads_per_block, 0, stream>>>(
        indptr, num_rows, segment_length, first.as<std::int32_t>(), cut_before.as<std::int32_t>());
    check_launch("count_segments_kernel");
    exclusive_scan(first.as<std::int32_t>(), first.as<std::int32_t>(), std::int64_t{num_rows} + 1, stream);
    exclusive_scan(cut_before.as<std::int32_t>(), cut_before.as<std::int32_t>(), std::int64_t{num_rows} + 1, stream);
    const pinned_memory sizes;
    auto* const read = sizes.as<std::int32_t>();
    WARPLOOM_CUDA_CHECK(cudaMemcpyAsync(read, first.as<std::int32_t>() + num_rows, sizeof(std::int32_t),
                                        cudaMemcpyDeviceToHost, stream));
    WARPLOOM_CUDA_CHECK(cudaMemcpyAsync(read + 1, cut_before.as<std::int32_t>() + num_rows, sizeof(std::int32_t),
                                        cudaMemcpyDeviceToHost, stream));
    synchronize(stream);
    num_segments = read[0];
    num_cut = read[1];
  }
  const std::int32_t num_partials = num_segments - (static_cast<std::int32_t>(num_rows) - num_cut);
  segments = {static_cast<std::size_t>(num_segments), allocate};
  split_of_partial = {static_cast<std::size_t>(num_partials), allocate};
  splits = {static_cast<std::size_t>(num_cut), allocate};
  const pooled_memory in_row_order(longest_first ? segments.bytes() : 0, stream);
  write_segments_kernel<<<blocks_for(num_rows), threads_per_block, 0, stream>>>(
      {indptr, row_ids, num_rows, segment_length, first.as<std::int32_t>(), cut_before.as<std::int32_t>(),
       longest_first ? in_row_order.as<int4>() : segments.data(), split_of_partial.data(), splits.data()});
  check_launch("write_segments_kernel");
  if (longest_first) sort_by_length(in_row_order.as<int4>(), segments.data(), num_segments, longest_row, stream);
}

}  // namespace warploom::cuda
