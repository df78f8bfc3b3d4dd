// Conversion from CSR to HYB on the GPU. One scan over the rows gives every offset of COO; a thread for each row then
// describes it, and a warp for each row or segment of a row copies the entries. The host learns the width of ELL, if
// it was not asked for one, and the sizes.
#include <algorithm>

#include "device/algorithms.hpp"
#include "device/workspace.hpp"
#include "kernels/hyb/device_hyb.hpp"
#include "kernels/hyb/width.hpp"

namespace warploom::cuda {
namespace {

constexpr int threads_per_block = 256;

__global__ void __launch_bounds__(threads_per_block)
    row_lengths_kernel(const std::int32_t* __restrict__ indptr, unsigned num_rows,
                       std::uint32_t* __restrict__ lengths) {
  const unsigned row = blockIdx.x * threads_per_block + threadIdx.x;
  if (row < num_rows) lengths[row] = indptr[row + 1] - indptr[row];
}

// What hyb_width gives.
std::int64_t find_width(const device_csr& matrix) {
  const matrix_summary& summary = matrix.summary();
  if (summary.shortest_row == summary.longest_row) return summary.longest_row;
  const cudaStream_t stream = matrix.stream();
  const auto num_rows = static_cast<unsigned>(matrix.num_rows());
  const pooled_memory lengths(2 * std::size_t{num_rows} * sizeof(std::uint32_t), stream);
  auto* const sorted = lengths.as<std::uint32_t>() + num_rows;
  row_lengths_kernel<<<blocks_for(num_rows), threads_per_block, 0, stream>>>(matrix.indptr32(), num_rows,
                                                                             lengths.as<std::uint32_t>());
  check_launch("row_lengths_kernel");
  sort_descending(lengths.as<const std::uint32_t>(), sorted, num_rows, bits_for(summary.longest_row), stream);
  return read_back(sorted + rows_that_fill_ell(num_rows) - 1, stream);
}

// One thread for each row and one past the last: entries in COO, whether there are any, whether the row is cut, and
// into how many segments.
__global__ void __launch_bounds__(threads_per_block)
    count_overflow_kernel(const std::int32_t* __restrict__ indptr, std::int64_t num_rows, int width,
                          int4* __restrict__ counts) {
  const std::int64_t row = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (row > num_rows) return;
  const int entries = row < num_rows ? max(indptr[row + 1] - indptr[row] - width, 0) : 0;
  const bool cut = entries > hyb_segment_length;
  counts[row] = make_int4(entries, entries > 0, cut, cut ? (entries - 1) / hyb_segment_length + 1 : 0);
}

// `offsets` are the sums of those counts over the rows before, for each row and one past the last.
__global__ void __launch_bounds__(threads_per_block)
    describe_overflow_kernel(const int4* __restrict__ offsets, std::int64_t num_rows, unsigned height,
                             std::uint32_t* __restrict__ overflow_ptr, int4* __restrict__ overflow_rows,
                             int4* __restrict__ pieces, std::int32_t* __restrict__ cut_row_ids,
                             row_segments* __restrict__ cut_rows) {
  const std::int64_t row = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (row >= num_rows) return;
  const int4 before = offsets[row];
  const int4 after = offsets[row + 1];
  if (row % height == 0) overflow_ptr[row / height] = before.y;
  if (row == num_rows - 1) overflow_ptr[row / height + 1] = after.y;
  if (before.y == after.y) return;
  const int row_id = static_cast<int>(row);
  const bool is_cut = before.z != after.z;
  overflow_rows[before.y] = make_int4(row_id, before.x, after.x, is_cut ? before.z : -1);
  if (!is_cut) return;
  const int first_slot = before.z + before.w;  // every cut row has one slot more than it has segments
  cut_row_ids[before.z] = row_id;
  cut_rows[before.z] = row_segments{first_slot, after.w - before.w + 1};
  for (int i = 0; i < after.w - before.w; ++i) {
    const int begin = before.x + i * hyb_segment_length;
    const int end = after.x - begin > hyb_segment_length ? begin + hyb_segment_length : after.x;
    pieces[before.w + i] = make_int4(begin, end, before.z, first_slot + 1 + i);
  }
}

template <class Word>
struct overflow_to_copy {
  unsigned num_pieces;
  unsigned num_overflow_rows;
  int width;
  const int4* offsets;
  const int4* overflow_rows;
  const int4* pieces;
  const std::int32_t* cut_row_ids;
  const std::int32_t* indptr;
  const std::int32_t* from_indices;
  const Word* from_data;
  std::int32_t* indices;
  Word* data;
};

// A warp for each segment of a cut row, and for each row that is not cut.
template <class Word>
__global__ void __launch_bounds__(threads_per_block) copy_overflow_kernel(const overflow_to_copy<Word> A) {
  const unsigned warp = (blockIdx.x * threads_per_block + threadIdx.x) / 32;
  if (warp >= A.num_pieces + A.num_overflow_rows) return;
  int row;
  int begin;
  int end;
  if (warp < A.num_pieces) {
    const int4 piece = A.pieces[warp];
    row = A.cut_row_ids[piece.z];
    begin = piece.x;
    end = piece.y;
  } else {
    const int4 entries = A.overflow_rows[warp - A.num_pieces];
    if (entries.w >= 0) return;
    row = entries.x;
    begin = entries.y;
    end = entries.z;
  }
  // From the place of an entry in COO to that in CSR.
  const int shift = A.indptr[row] + A.width - A.offsets[row].x;
#pragma unroll 4
  for (int i = threadIdx.x % 32; i < end - begin; i += 32) {
    A.indices[begin + i] = A.from_indices[begin + shift + i];
    A.data[begin + i] = A.from_data[begin + shift + i];
  }
}

// The width of ELL: no more than the longest row.
std::int64_t choose_width(const device_csr& matrix, std::int64_t asked,
                          const std::function<void(std::int64_t)>& check_width) {
  check_hyb_width(asked);
  const std::int64_t width = asked == 0 ? find_width(matrix) : std::min(asked, matrix.summary().longest_row);
  check_width(width);
  return width;
}

}  // namespace

device_hyb::device_hyb(const device_csr& matrix, std::int64_t width, int height,
                       const std::function<void(std::int64_t)>& check_width, const device_allocator& allocate)
    : ell_(matrix, choose_width(matrix, width, check_width), height, allocate), stream_(matrix.stream()) {
  if (ell().head < matrix.summary().longest_row) make_coo(matrix, allocate);
}

void device_hyb::make_coo(const device_csr& matrix, const device_allocator& allocate) {
  const std::int64_t num_rows = matrix.num_rows();
  const auto width = static_cast<int>(ell().head);
  const pooled_memory counts((num_rows + 1) * sizeof(int4), stream_);
  const pooled_memory offsets((num_rows + 1) * sizeof(int4), stream_);
  count_overflow_kernel<<<blocks_for(num_rows + 1), threads_per_block, 0, stream_>>>(matrix.indptr32(), num_rows, width,
                                                                                     counts.as<int4>());
  check_launch("count_overflow_kernel");
  exclusive_scan(counts.as<const int4>(), offsets.as<int4>(), num_rows + 1, stream_);
  const int4 totals = read_back(offsets.as<const int4>() + num_rows, stream_);
  const auto sized = [](std::int32_t size) { return static_cast<std::size_t>(size); };
  coo_indices_ = {sized(totals.x), allocate};
  coo_data_ = {sized(totals.x) * size_of(matrix.dtype()), allocate};
  overflow_rows_ = {sized(totals.y), allocate};
  cut_row_ids_ = {sized(totals.z), allocate};
  cut_rows_ = {sized(totals.z), allocate};
  pieces_ = {sized(totals.w), allocate};
  overflow_ptr_ = {static_cast<std::size_t>(ell().num_slices()) + 1, allocate};
  auto* const rows = reinterpret_cast<int4*>(overflow_rows_.data());
  auto* const pieces = reinterpret_cast<int4*>(pieces_.data());
  describe_overflow_kernel<<<blocks_for(num_rows), threads_per_block, 0, stream_>>>(
      offsets.as<const int4>(), num_rows, static_cast<unsigned>(ell().height), overflow_ptr_.data(), rows, pieces,
      cut_row_ids_.data(), cut_rows_.data());
  check_launch("describe_overflow_kernel");
  const auto copy = [&]<class Word>(Word) {
    const overflow_to_copy<Word> view{static_cast<unsigned>(totals.w),
                                      static_cast<unsigned>(totals.y),
                                      width,
                                      offsets.as<const int4>(),
                                      rows,
                                      pieces,
                                      cut_row_ids_.data(),
                                      matrix.indptr32(),
                                      matrix.indices(),
                                      matrix.values<Word>(),
                                      coo_indices_.data(),
                                      reinterpret_cast<Word*>(coo_data_.data())};
    const std::int64_t warps = std::int64_t{totals.w} + totals.y;
    copy_overflow_kernel<<<blocks_for(warps * 32), threads_per_block, 0, stream_>>>(view);
    check_launch("copy_overflow_kernel");
  };
  switch (size_of(matrix.dtype())) {
    case 2:
      return copy(std::uint16_t{});
    case 4:
      return copy(std::uint32_t{});
    default:
      return copy(static_cast<unsigned long long>(0));
  }
}

std::size_t device_hyb::bytes() const {
  return ell_.bytes() + overflow_ptr_.bytes() + overflow_rows_.bytes() + pieces_.bytes() + cut_row_ids_.bytes() +
         cut_rows_.bytes() + coo_indices_.bytes() + coo_data_.bytes();
}

hyb_matrix device_hyb::download() const {
  hyb_matrix result;
  result.ell = ell_.download();
  result.num_rows = result.coo.num_rows = result.ell.num_rows;
  result.num_cols = result.coo.num_cols = result.ell.num_cols;
  result.dtype = result.coo.dtype = result.ell.dtype;
  result.coo.indices = cuda::download(coo_indices_, stream_);
  result.coo.data = cuda::download(coo_data_, stream_);
  for (const overflow_row& row : cuda::download(overflow_rows_, stream_)) {
    result.coo.row_indices.insert(result.coo.row_indices.end(), row.end - row.begin, row.row);
  }
  return result;
}

}  // namespace warploom::cuda
