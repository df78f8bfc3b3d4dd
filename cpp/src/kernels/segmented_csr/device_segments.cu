#include "device/algorithms.hpp"
#include "device/workspace.hpp"
#include "kernels/segmented_csr/device_segments.hpp"

namespace warploom::cuda {
namespace {

constexpr int threads_per_block = 256;

// Cut rows and the segments they have: numbers below 2^31 in one word, so that one scan adds up both.
struct cut_counts {
  std::int64_t word = 0;

  __host__ __device__ static cut_counts of(int segments, bool cut) {
    return {std::int64_t{cut} << 32 | static_cast<std::uint32_t>(segments)};
  }
  __host__ __device__ std::int32_t segments() const { return static_cast<std::int32_t>(word); }
  __host__ __device__ std::int32_t rows() const { return static_cast<std::int32_t>(word >> 32); }
};

// How rows become segments.
struct row_cutting {
  const std::int32_t* indptr;
  std::uint32_t num_rows;
  int segment_length;
  std::uint32_t joined;  // rows and nonzeros that neighbouring rows share a segment for, about; 0: each has its own

  __device__ int length(std::uint32_t row) const { return indptr[row + 1] - indptr[row]; }
  // The nonzeros of a segment of a row, at most.
  __device__ int longest_segment(int of_row) const {
    return max(segment_length, (of_row + max_segments_per_row - 1) / max_segments_per_row);
  }
  __device__ bool cuts(std::uint32_t row) const { return length(row) > longest_segment(length(row)); }
  // Whether a row that is not cut is the first one of its segment.
  __device__ bool begins(std::uint32_t row) const {
    return row == 0 || joined == 0 || cuts(row - 1) || share(row) != share(row - 1);
  }

 private:
  // Both numbers are below 2^31.
  __device__ std::uint32_t share(std::uint32_t row) const {
    return (row + static_cast<std::uint32_t>(indptr[row])) / joined;
  }
};

// Of each row, and none behind the last one: its segments if it is cut, and else whether a segment begins with it.
__global__ void count_segments_kernel(const row_cutting rows, cut_counts* __restrict__ cut,
                                      std::int32_t* __restrict__ begins) {
  const unsigned row = blockIdx.x * threads_per_block + threadIdx.x;
  if (row > rows.num_rows) return;
  const bool exists = row < rows.num_rows;
  const int length = exists ? rows.length(row) : 0;
  const bool is_cut = exists && rows.cuts(row);
  if (cut) cut[row] = cut_counts::of(is_cut ? (length - 1) / rows.longest_segment(length) + 1 : 0, is_cut);
  if (begins) begins[row] = exists && !is_cut && rows.begins(row);
}

struct segments_task {
  row_cutting rows;
  const std::int32_t* row_ids;
  const cut_counts* cut_before;      // of all rows before each; null: no row is cut
  const std::int32_t* begin_before;  // segments that whole rows begin, where they are joined
  int num_partials;
  int4* segments;
  std::int32_t* split_of_partial;
  row_segments* splits;
  int most_pieces;
  long_row* long_rows;  // null: there are none
  unsigned* num_long_rows;
};

__global__ void write_segments_kernel(const segments_task task) {
  const row_cutting& rows = task.rows;
  const unsigned p = blockIdx.x * threads_per_block + threadIdx.x;
  if (p >= rows.num_rows) return;
  const int begin = rows.indptr[p];
  const int length = rows.length(p);
  const int row = task.row_ids ? task.row_ids[p] : static_cast<int>(p);
  const cut_counts before = task.cut_before ? task.cut_before[p] : cut_counts{};
  const int first_partial = before.segments();
  // In the order of the rows, or the parts of rows first.
  int first = rows.joined == 0 ? static_cast<int>(p) - before.rows() + first_partial : first_partial;
  if (!rows.cuts(p)) {
    if (rows.joined == 0) {
      task.segments[first] = {row, begin, length, -1};
    } else if (rows.begins(p)) {
      first = task.num_partials + task.begin_before[p];
      unsigned end = p + 1;
      while (end < rows.num_rows && !rows.cuts(end) && !rows.begins(end)) ++end;
      task.segments[first] = {static_cast<int>(p), begin, rows.indptr[end] - begin, -static_cast<int>(end - p)};
    }
    return;
  }
  const int most = rows.longest_segment(length);
  const int count = (length - 1) / most + 1;
  for (int i = 0; i < count; ++i) {
    task.segments[first + i] = {row, begin + i * most, min(most, length - i * most), first_partial + i};
    task.split_of_partial[first_partial + i] = before.rows();
  }
  const row_segments pieces{first_partial, count};
  task.splits[before.rows()] = pieces;
  if (task.long_rows && count > task.most_pieces) task.long_rows[atomicAdd(task.num_long_rows, 1u)] = {row, pieces};
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
  const pooled_memory memory(4 * size * sizeof(std::uint32_t), stream);
  auto* const lengths = memory.as<std::uint32_t>();
  std::uint32_t* const sorted_lengths = lengths + size;
  auto* const positions = reinterpret_cast<std::int32_t*>(sorted_lengths + size);
  std::int32_t* const order = positions + size;
  lengths_kernel<<<blocks_for(size), threads_per_block, 0, stream>>>(segments, size, lengths, positions);
  check_launch("lengths_kernel");
  sort_pairs_descending(lengths, sorted_lengths, positions, order, size, bits_for(longest), stream);
  gather_kernel<<<blocks_for(size), threads_per_block, 0, stream>>>(segments, order, size, sorted);
  check_launch("gather_kernel");
}

}  // namespace

segment_list::segment_list(const device_csr& matrix, const std::int32_t* row_ids, int segment_length,
                           bool longest_first, const device_allocator& allocate, int joined, int most_pieces)
    : segment_list(matrix.indptr32(), matrix.num_rows(), matrix.summary().longest_row, row_ids, segment_length,
                   longest_first, matrix.stream(), allocate, joined, most_pieces) {}

segment_list::segment_list(const std::int32_t* indptr, std::int64_t all_rows, std::int64_t longest_row,
                           const std::int32_t* row_ids, int segment_length, bool longest_first, cudaStream_t stream,
                           const device_allocator& allocate, int joined, int most_pieces) {
  const auto num_rows = static_cast<unsigned>(all_rows);
  if (num_rows == 0) return;
  const row_cutting rows{indptr, num_rows, segment_length, static_cast<std::uint32_t>(joined)};
  const std::size_t counts = num_rows + std::size_t{1};
  const bool cuts = longest_row > segment_length, joins = joined > 0;
  const pooled_memory cut(cuts ? counts * sizeof(cut_counts) : 0, stream);
  const pooled_memory begins(joins ? counts * sizeof(std::int32_t) : 0, stream);
  if (cuts || joins) {
    count_segments_kernel<<<blocks_for(static_cast<std::int64_t>(counts)), threads_per_block, 0, stream>>>(
        rows, cut.as<cut_counts>(), begins.as<std::int32_t>());
    check_launch("count_segments_kernel");
  }
  cut_counts all_cut;
  if (cuts) {
    exclusive_scan(cut.as<std::int64_t>(), cut.as<std::int64_t>(), static_cast<std::int64_t>(counts), stream);
    all_cut = read_back(cut.as<cut_counts>() + num_rows, stream);
  }
  std::int32_t whole = static_cast<std::int32_t>(num_rows) - all_cut.rows();  // segments that are no part of a row
  if (joins) {
    exclusive_scan(begins.as<std::int32_t>(), begins.as<std::int32_t>(), static_cast<std::int64_t>(counts), stream);
    whole = read_back(begins.as<std::int32_t>() + num_rows, stream);
  }
  const std::int64_t num_segments = whole + all_cut.segments();
  segments = {static_cast<std::size_t>(num_segments), allocate};
  split_of_partial = {static_cast<std::size_t>(all_cut.segments()), allocate};
  splits = {static_cast<std::size_t>(all_cut.rows()), allocate};
  const bool has_long_rows = most_pieces < max_segments_per_row && longest_row / segment_length >= most_pieces;
  if (has_long_rows) long_rows = {static_cast<std::size_t>(all_cut.segments() / most_pieces), allocate};
  const pooled_memory found(has_long_rows ? sizeof(unsigned) : 0, stream);
  if (has_long_rows) WARPLOOM_CUDA_CHECK(cudaMemsetAsync(found.data(), 0, sizeof(unsigned), stream));
  const pooled_memory in_row_order(longest_first ? segments.bytes() : 0, stream);
  write_segments_kernel<<<blocks_for(num_rows), threads_per_block, 0, stream>>>(
      {rows, row_ids, cut.as<cut_counts>(), begins.as<std::int32_t>(), all_cut.segments(),
       longest_first ? in_row_order.as<int4>() : segments.data(), split_of_partial.data(), splits.data(), most_pieces,
       long_rows.data(), found.as<unsigned>()});
  check_launch("write_segments_kernel");
  if (has_long_rows) num_long_rows = read_back(found.as<unsigned>(), stream);
  if (longest_first) sort_by_length(in_row_order.as<int4>(), segments.data(), num_segments, longest_row, stream);
}

}  // namespace warploom::cuda
