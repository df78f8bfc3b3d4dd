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

struct found_long_rows {
  unsigned of_blocks = 0;
  unsigned of_warps = 0;
};

struct segments_task {
  row_cutting rows;
  const std::int32_t* row_ids;
  const cut_counts* cut_before;      // of all rows before each; null: no row is cut
  const std::int32_t* begin_before;  // segments that whole rows begin, where they are joined
  int num_partials;
  int4* segments;
  int4* pieces;  // the same, or elsewhere those of cut rows
  std::int32_t* split_of_partial;
  row_segments* splits;
  bool cut_rows_first;
  int most_pieces;
  int most_pieces_of_warp;
  long_row* long_rows;  // null: there are none
  long_row* end_of_long_rows;
  found_long_rows* found;
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
  const int whole_before = static_cast<int>(p) - before.rows();
  if (!rows.cuts(p)) {
    if (rows.joined == 0) {
      task.segments[whole_before + (task.cut_rows_first ? task.num_partials : first_partial)] = {row, begin, length,
                                                                                                 -1};
    } else if (rows.begins(p)) {
      const int first = task.num_partials + task.begin_before[p];
      unsigned end = p + 1;
      while (end < rows.num_rows && !rows.cuts(end) && !rows.begins(end)) ++end;
      task.segments[first] = {static_cast<int>(p), begin, rows.indptr[end] - begin, -static_cast<int>(end - p)};
    }
    return;
  }
  const int most = rows.longest_segment(length);
  const int count = (length - 1) / most + 1;
  const int first = task.cut_rows_first ? first_partial : whole_before + first_partial;
  for (int i = 0; i < count; ++i) {
    task.pieces[first + i] = {row, begin + i * most, min(most, length - i * most), first_partial + i};
    task.split_of_partial[first_partial + i] = before.rows();
  }
  const row_segments pieces{first_partial, count};
  task.splits[before.rows()] = pieces;
  if (!task.long_rows || count <= task.most_pieces) return;
  if (count > task.most_pieces_of_warp) {
    task.long_rows[atomicAdd(&task.found->of_blocks, 1u)] = {row, pieces};
  } else {
    *(task.end_of_long_rows - 1 - atomicAdd(&task.found->of_warps, 1u)) = {row, pieces};
  }
}

// The key of every segment: its length, or with `indices` the column in its middle.
__global__ void sort_keys_kernel(const int4* __restrict__ segments, std::int64_t size,
                                 const std::int32_t* __restrict__ indices, std::uint32_t* __restrict__ keys,
                                 std::int32_t* __restrict__ positions) {
  const std::int64_t i = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (i >= size) return;
  const int4 segment = segments[i];
  keys[i] = static_cast<std::uint32_t>(indices ? indices[segment.y + segment.z / 2] : segment.z);
  positions[i] = static_cast<std::int32_t>(i);
}

__global__ void gather_kernel(const int4* __restrict__ from, const std::int32_t* __restrict__ positions,
                              std::int64_t size, int4* __restrict__ to) {
  const std::int64_t i = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (i < size) to[i] = from[positions[i]];
}

// By decreasing length, or with `indices` by the column in the middle. Keys are below 2^key_bits.
void sort_segments(const int4* segments, int4* sorted, std::int64_t size, const std::int32_t* indices, int key_bits,
                   cudaStream_t stream) {
  const pooled_memory memory(4 * size * sizeof(std::uint32_t), stream);
  auto* const keys = memory.as<std::uint32_t>();
  std::uint32_t* const sorted_keys = keys + size;
  auto* const positions = reinterpret_cast<std::int32_t*>(sorted_keys + size);
  std::int32_t* const order = positions + size;
  sort_keys_kernel<<<blocks_for(size), threads_per_block, 0, stream>>>(segments, size, indices, keys, positions);
  check_launch("sort_keys_kernel");
  const auto sort = indices ? static_cast<decltype(&sort_pairs_descending)>(sort_pairs) : sort_pairs_descending;
  sort(keys, sorted_keys, positions, order, size, key_bits, stream);
  gather_kernel<<<blocks_for(size), threads_per_block, 0, stream>>>(segments, order, size, sorted);
  check_launch("gather_kernel");
}

}  // namespace

segment_list::segment_list(const rows_to_cut& to_cut, const std::int32_t* row_ids, const segment_shape& shape,
                           cudaStream_t stream, const device_allocator& allocate) {
  const auto num_rows = static_cast<unsigned>(to_cut.num_rows);
  if (num_rows == 0) return;
  const row_cutting rows{to_cut.indptr, num_rows, shape.segment_length, static_cast<std::uint32_t>(shape.joined)};
  const std::size_t counts = num_rows + std::size_t{1};
  const bool cuts = to_cut.longest_row > shape.segment_length, joins = shape.joined > 0;
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
  const bool has_long_rows =
      shape.most_pieces < max_segments_per_row && to_cut.longest_row / shape.segment_length >= shape.most_pieces;
  if (has_long_rows) {
    long_rows = {std::min(splits.size(), split_of_partial.size() / static_cast<std::size_t>(shape.most_pieces)),
                 allocate};
  }
  const pooled_memory found(has_long_rows ? sizeof(found_long_rows) : 0, stream);
  if (has_long_rows) WARPLOOM_CUDA_CHECK(cudaMemsetAsync(found.data(), 0, sizeof(found_long_rows), stream));
  const std::int64_t by_column = shape.by_column ? all_cut.segments() : 0;
  const std::int64_t sorted = shape.longest_first ? num_segments : by_column;
  const pooled_memory in_row_order(sorted * sizeof(int4), stream);
  write_segments_kernel<<<blocks_for(num_rows), threads_per_block, 0, stream>>>(
      {rows, row_ids, cut.as<cut_counts>(), begins.as<std::int32_t>(), all_cut.segments(),
       shape.longest_first ? in_row_order.as<int4>() : segments.data(),
       sorted > 0 ? in_row_order.as<int4>() : segments.data(), split_of_partial.data(), splits.data(),
       shape.cut_rows_first(), shape.most_pieces, shape.most_pieces_of_warp, long_rows.data(),
       long_rows.data() + long_rows.size(), found.as<found_long_rows>()});
  check_launch("write_segments_kernel");
  if (has_long_rows) {
    const found_long_rows rows_found = read_back(found.as<found_long_rows>(), stream);
    num_long_rows = rows_found.of_blocks;
    num_rows_of_warps = rows_found.of_warps;
  }
  if (by_column > 0) {
    sort_segments(in_row_order.as<int4>(), segments.data(), by_column, to_cut.indices, bits_for(to_cut.num_cols),
                  stream);
  }
  if (sorted > by_column) {
    sort_segments(in_row_order.as<int4>() + by_column, segments.data() + by_column, sorted - by_column, nullptr,
                  bits_for(to_cut.longest_row), stream);
  }
}

}  // namespace warploom::cuda
