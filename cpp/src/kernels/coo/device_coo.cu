// Conversion from CSR to parts of COO on the GPU: the row of every nonzero, the parts, a scan that numbers the rows
// that they share, and a kernel that writes part after part.
#include <cstring>
#include <vector>

#include "device/algorithms.hpp"
#include "device/workspace.hpp"
#include "kernels/coo/device_coo.hpp"
#include "kernels/device/path_cuts.cuh"
#include "kernels/device/warp.cuh"
#include "warploom/formats/format.hpp"

namespace warploom::cuda {
namespace {

constexpr int threads_per_block = 256;
constexpr int warps_per_block = threads_per_block / 32;

// A part ends where the row of the next nonzero begins, if that leaves at most `spare` places empty.
struct parts_path {
  std::int64_t num_items;
  int size;
  int spare;
  const std::int32_t* indptr;
  const std::int32_t* rows;

  __device__ void find_steps(std::int64_t first, int count, path_step* steps) const {
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < count; i += path_threads) {
      const std::int64_t at = first + i;
      const std::int64_t before = at < num_items ? at - __ldg(indptr + __ldg(rows + at)) : 0;  // in the row
      steps[i] = before <= spare ? static_cast<path_step>(before) : cut_here;
    }
  }
};

// Everything about the parts that the kernels below read.
struct parts_view {
  int num_parts;
  std::int64_t nnz;
  const std::int64_t* begins;
  const std::int32_t* indptr;
  const std::int32_t* rows;

  // Whether a row has nonzeros before and from a position on.
  __device__ bool cuts_row(std::int64_t at) const { return at > 0 && at < nnz && rows[at - 1] == rows[at]; }
  __device__ bool has_head(int part) const { return cuts_row(begins[part]); }
  // A row that goes on and has begun here.
  __device__ bool has_tail(int part) const {
    const std::int64_t begin = begins[part];
    const std::int64_t end = begins[part + 1];
    return cuts_row(end) && !(cuts_row(begin) && rows[begin] == rows[end - 1]);
  }
};

// Cut rows (in the upper 32 bits) and slots that each part adds, and nothing past the end.
__global__ void count_cut_rows_kernel(const parts_view parts, std::int64_t* __restrict__ counts) {
  const int part = static_cast<int>(blockIdx.x * threads_per_block + threadIdx.x);
  if (part > parts.num_parts) return;
  std::int64_t count = 0;
  if (part < parts.num_parts) {
    if (parts.has_head(part)) count += 1;
    if (parts.has_tail(part)) count += (std::int64_t{1} << 32) + 1;
  }
  counts[part] = count;
}

// One warp for each part. `numbers`: cut rows and slots before it, or null if no row is cut.
template <class Word>
__global__ void __launch_bounds__(threads_per_block)
    fill_parts_kernel(const parts_view parts, int part_size, const std::int64_t* __restrict__ numbers,
                      const std::int32_t* __restrict__ from_indices, const Word* __restrict__ from_data,
                      part_borders* __restrict__ borders, row_segments* __restrict__ cut_rows,
                      std::int32_t* __restrict__ row_indices, std::int32_t* __restrict__ indices,
                      Word* __restrict__ data) {
  const int part = static_cast<int>(blockIdx.x * warps_per_block + threadIdx.x / 32);
  if (part >= parts.num_parts) return;  // whole warps
  const int lane = static_cast<int>(lane_id());
  const std::int64_t begin = parts.begins[part];
  const int length = static_cast<int>(parts.begins[part + 1] - begin);
#pragma unroll 4
  for (int i = lane; i < part_size; i += 32) {
    const bool there = i < length;
    const std::int64_t to = std::int64_t{part} * part_size + i;
    row_indices[to] = __ldg(parts.rows + begin + min(i, length - 1));
    indices[to] = there ? __ldcs(from_indices + begin + i) : -1;
    data[to] = there ? __ldcs(from_data + begin + i) : Word{0};
  }
  if (lane > 0) return;
  part_borders mine{-1, -1, -1, -1};
  if (numbers != nullptr) {
    const std::int64_t before = numbers[part];
    const auto cut = static_cast<std::int32_t>(before >> 32);
    auto slot = static_cast<std::int32_t>(before);
    if (parts.has_head(part)) {
      mine.head_cut = cut - 1;
      mine.head_slot = slot++;
    }
    if (parts.has_tail(part)) {
      mine.tail_cut = cut;
      mine.tail_slot = slot;
      const std::int64_t last = parts.indptr[parts.rows[begin + length] + 1] - std::int64_t{1};
      cut_rows[cut] = {slot, piece_at(parts.begins, parts.num_parts, last) - part + 1};
    }
  }
  borders[part] = mine;
}

__global__ void flag_empty_rows_kernel(const std::int32_t* __restrict__ indptr, std::int64_t num_rows,
                                       std::uint8_t* __restrict__ flags) {
  const std::int64_t row = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (row < num_rows) flags[row] = indptr[row] == indptr[row + 1];
}

}  // namespace

device_coo::device_coo(const device_csr& matrix, int part_size, const device_allocator& allocate)
    : num_rows_(matrix.num_rows()),
      num_cols_(matrix.num_cols()),
      nnz_(matrix.nnz()),
      dtype_(matrix.dtype()),
      stream_(matrix.stream()) {
  find_empty_rows(matrix, allocate);
  if (nnz_ == 0) return;
  // Small matrices pay for adding the partial sums of cut rows, large ones for the bandwidth that empty places take.
  constexpr std::int64_t small = 1 << 17;
  const int spare = nnz_ <= small ? part_size / 2 : part_size / 8;
  const device_array<std::int32_t> rows = row_indices_of(matrix, pooled_allocator(stream_));
  const path_pieces pieces = cut_path(parts_path{nnz_, part_size, spare, matrix.indptr32(), rows.data()}, stream_);
  const auto num_parts = static_cast<std::size_t>(pieces.size);
  const parts_view parts{static_cast<int>(num_parts), nnz_, pieces.begins.data(), matrix.indptr32(), rows.data()};
  const pooled_memory numbers(pieces.cuts_rows ? (num_parts + 1) * sizeof(std::int64_t) : 0, stream_);
  if (pieces.cuts_rows) {
    cut_rows_ = {num_parts, allocate};
    const auto count = static_cast<std::int64_t>(num_parts) + 1;
    const pooled_memory counts(count * sizeof(std::int64_t), stream_);
    count_cut_rows_kernel<<<blocks_for(count), threads_per_block, 0, stream_>>>(parts, counts.as<std::int64_t>());
    check_launch("count_cut_rows_kernel");
    exclusive_scan(counts.as<const std::int64_t>(), numbers.as<std::int64_t>(), count, stream_);
  }
  borders_ = {num_parts, allocate};
  row_indices_ = {num_parts * part_size, allocate};
  indices_ = {num_parts * part_size, allocate};
  data_ = {num_parts * part_size * size_of(dtype_), allocate};
  const auto fill = [&]<class Word>(Word) {
    fill_parts_kernel<<<blocks_for(parts.num_parts * std::int64_t{32}), threads_per_block, 0, stream_>>>(
        parts, part_size, numbers.as<const std::int64_t>(), matrix.indices(), matrix.values<Word>(), borders_.data(),
        cut_rows_.data(), row_indices_.data(), indices_.data(), reinterpret_cast<Word*>(data_.data()));
  };
  switch (size_of(dtype_)) {
    case 2:
      fill(std::uint16_t{});
      break;
    case 4:
      fill(std::uint32_t{});
      break;
    default:
      fill(static_cast<unsigned long long>(0));
  }
  check_launch("fill_parts_kernel");
}

void device_coo::find_empty_rows(const device_csr& matrix, const device_allocator& allocate) {
  empty_rows_ = {static_cast<std::size_t>(matrix.summary().empty_rows), allocate};
  if (empty_rows_.size() == 0) return;
  const pooled_memory flags(num_rows_, stream_);
  const pooled_memory count(sizeof(std::int32_t), stream_);
  flag_empty_rows_kernel<<<blocks_for(num_rows_), threads_per_block, 0, stream_>>>(matrix.indptr32(), num_rows_,
                                                                                   flags.as<std::uint8_t>());
  check_launch("flag_empty_rows_kernel");
  select_positions(flags.as<const std::uint8_t>(), empty_rows_.data(), count.as<std::int32_t>(), num_rows_, stream_);
}

coo_matrix device_coo::download() const {
  coo_matrix result;
  result.num_rows = num_rows_;
  result.num_cols = num_cols_;
  result.dtype = dtype_;
  std::vector<std::int32_t> rows(row_indices_.size());
  std::vector<std::int32_t> columns(indices_.size());
  std::vector<std::byte> values(data_.size());
  copy_to_host(rows.data(), row_indices_.data(), row_indices_.bytes(), stream_);
  copy_to_host(columns.data(), indices_.data(), indices_.bytes(), stream_);
  copy_to_host(values.data(), data_.data(), data_.bytes(), stream_);
  const std::size_t size = size_of(dtype_);
  result.data.resize(nnz_ * size);
  for (std::size_t place = 0; place < columns.size(); ++place) {
    if (columns[place] < 0) continue;
    std::memcpy(result.data.data() + result.indices.size() * size, values.data() + place * size, size);
    result.row_indices.push_back(rows[place]);
    result.indices.push_back(columns[place]);
  }
  return result;
}

}  // namespace warploom::cuda

namespace warploom {

std::unique_ptr<stored_matrix> coo_on_gpu(const device_csr& matrix, const option_values&) {
  constexpr int part_size = 128;
  return stored(cuda::device_coo(matrix, part_size, allocate_device_memory).download());
}

}  // namespace warploom
