// Conversion from CSR to BSR on the GPU.
//
// Rows by ascending column, none of them very long, are merged: a thread for each row goes through its entries, and the
// threads of a block row go together from one block column to the next that any of them has. A first pass counts the
// blocks, the host reads back how many there are, and a second pass writes them.
//
// The nonzeros of other matrices are sorted by block row and block column, stably, so that those of a block follow each
// other in the order in which they are stored. Where a block begins is selected from them, and one thread fills each
// block.
#include <bit>
#include <type_traits>
#include <vector>

#include "device/algorithms.hpp"
#include "device/workspace.hpp"
#include "kernels/bsr/device_bsr.hpp"
#include "kernels/bsr/merged_rows.cuh"
#include "kernels/bsr/reason.hpp"
#include "kernels/device/nonzeros.cuh"
#include "kernels/device/values.cuh"
#include "kernels/device/vector.cuh"
#include "kernels/device/warp.cuh"
#include "kernels/dispatch_constant.hpp"
#include "warploom/device.hpp"
#include "warploom/error.hpp"
#include "warploom/formats/format.hpp"

namespace warploom::cuda {
namespace {

constexpr int threads_per_block = 256;

// ---- Merged rows

__host__ __device__ constexpr int log2_of(int power) { return power == 1 ? 0 : 1 + log2_of(power / 2); }

// `begins`: the first block of each block row, and their number.
template <int Rows, int Cols, class Value>
__global__ void __launch_bounds__(threads_per_block)
    merge_blocks_kernel(const csr_rows_view A, const Value* __restrict__ from, const std::int32_t* __restrict__ begins,
                        std::int32_t* __restrict__ indptr, std::int32_t* __restrict__ indices, Value* __restrict__ data,
                        unsigned long long* __restrict__ occupied) {
  constexpr int log2_cols = log2_of(Cols);
  constexpr int width =
      Cols < 16 / int{sizeof(Value)} ? Cols : 16 / int{sizeof(Value)};  // values that are stored at once
  using mask_type = std::conditional_t<(Rows * Cols > 32), unsigned long long, unsigned>;
  const unsigned row = blockIdx.x * threads_per_block + threadIdx.x;
  const unsigned block_row = row / Rows;
  const unsigned i = row % Rows;
  column_reader entries(A, row);
  std::int32_t block = __ldg(begins + min(block_row, A.num_block_rows));
  if (i == 0 && block_row <= A.num_block_rows) indptr[block_row] = block;
  while (true) {
    const int lowest = lowest_block_column<Rows>(entries, log2_cols);
    if (!any_lane(lowest != no_column)) break;
    Value places[Cols];
#pragma unroll
    for (int c = 0; c < Cols; ++c) places[c] = Value(0);
    mask_type present = 0;
    while (entries.is_in(lowest, log2_cols)) {
      const int place = entries.column() & (Cols - 1);
      Value value = __ldg(from + entries.at());
      entries.advance();
      if (present >> place & 1) {
        Value before = places[0];
#pragma unroll
        for (int c = 1; c < Cols; ++c) before = c == place ? places[c] : before;
        value = narrow<Value>(widen(before) + widen(value));
      }
#pragma unroll
      for (int c = 0; c < Cols; ++c) places[c] = c == place ? value : places[c];
      present |= mask_type{1} << place;
    }
    present <<= i * Cols;
#pragma unroll
    for (int offset = Rows / 2; offset > 0; offset /= 2) present |= exchange(present, offset);
    if (lowest == no_column) continue;
    auto* const to = reinterpret_cast<vector<Value, width>*>(data + (std::int64_t{block} * Rows + i) * Cols);
#pragma unroll
    for (int v = 0; v < Cols / width; ++v) {
      vector<Value, width> part;
#pragma unroll
      for (int c = 0; c < width; ++c) part.lane[c] = places[v * width + c];
      to[v] = part;
    }
    if (i == 0) {
      indices[block] = lowest;
      occupied[block] = present;
    }
    ++block;
  }
}

// Calls function(rows, cols) with constants.
template <class Function>
void dispatch_shape(block_shape block, Function&& function) {
  if (block.cols == 1) {
    dispatch_constant<column_vector.rows, tall_column_vector.rows>(
        block.rows, [&](auto rows) { function(rows, std::integral_constant<int, 1>{}); });
  } else {
    dispatch_constant<2, 4, 8>(block.rows, [&](auto size) { function(size, size); });
  }
}

// ---- Sorted nonzeros

// Keys: block row and, in the lowest `column_bits` bits, block column.
template <class Key>
__global__ void __launch_bounds__(threads_per_block)
    key_nonzeros_kernel(const std::int32_t* __restrict__ indptr, const std::int32_t* __restrict__ indices, int num_rows,
                        unsigned nnz, unsigned nnz_of_warp, int log2_rows, int log2_cols, int column_bits,
                        Key* __restrict__ keys, std::int32_t* __restrict__ rows, std::int32_t* __restrict__ positions) {
  const unsigned warp = (blockIdx.x * threads_per_block + threadIdx.x) / 32;
  const unsigned first = min(warp * nnz_of_warp, nnz);
  for_each_nonzero(indptr, num_rows, first, min(first + nnz_of_warp, nnz), [&](unsigned j, int row, bool there) {
    if (!there) return;
    keys[j] = static_cast<Key>(row >> log2_rows) << column_bits | static_cast<Key>(__ldcs(indices + j) >> log2_cols);
    rows[j] = row;
    positions[j] = static_cast<std::int32_t>(j);
  });
}

template <class Key>
__global__ void flag_blocks_kernel(const Key* __restrict__ keys, unsigned nnz, std::uint8_t* __restrict__ flags) {
  const unsigned i = blockIdx.x * threads_per_block + threadIdx.x;
  if (i < nnz) flags[i] = i == 0 || keys[i] != keys[i - 1];
}

// What the kernels that go through the nonzeros of a block read.
struct sorted_view {
  const std::int32_t* positions;  // of the nonzeros, sorted
  const std::int32_t* begins;     // first sorted nonzero of each block
  const std::int32_t* num_blocks;
  const std::int32_t* rows;
  const std::int32_t* indices;
  unsigned nnz;
  block_shape block;

  __device__ unsigned end_of(unsigned block, unsigned blocks) const {
    return block + 1 < blocks ? static_cast<unsigned>(begins[block + 1]) : nnz;
  }
  // Of the block.
  __device__ int place(int position) const {
    return (__ldg(rows + position) & (block.rows - 1)) * block.cols + (__ldg(indices + position) & (block.cols - 1));
  }
};

// One thread for each block and more. `found` becomes 1 if a block has two nonzeros in one place.
__global__ void find_repeats_kernel(const sorted_view sorted, std::int32_t* __restrict__ found) {
  const unsigned block = blockIdx.x * threads_per_block + threadIdx.x;
  const auto blocks = static_cast<unsigned>(*sorted.num_blocks);
  if (block >= blocks) return;
  unsigned long long occupied = 0;
  for (unsigned i = sorted.begins[block]; i < sorted.end_of(block, blocks); ++i) {
    const unsigned long long bit = 1ull << sorted.place(sorted.positions[i]);
    if (occupied & bit) *found = 1;
    occupied |= bit;
  }
}

// One thread for each block. Places are zero before.
template <class Value, class Key>
__global__ void __launch_bounds__(threads_per_block)
    fill_blocks_kernel(const sorted_view sorted, const Key* __restrict__ keys, int column_bits,
                       const Value* __restrict__ from, unsigned num_blocks, std::int32_t* __restrict__ block_rows,
                       std::int32_t* __restrict__ indices, Value* __restrict__ data,
                       unsigned long long* __restrict__ occupied) {
  const unsigned block = blockIdx.x * threads_per_block + threadIdx.x;
  if (block >= num_blocks) return;
  const unsigned begin = sorted.begins[block];
  const unsigned end = sorted.end_of(block, num_blocks);
  const Key key = keys[begin];
  block_rows[block] = static_cast<std::int32_t>(key >> column_bits);
  indices[block] = static_cast<std::int32_t>(key & ((Key{1} << column_bits) - 1));
  Value* const places = data + std::int64_t{block} * (sorted.block.rows * sorted.block.cols);
  unsigned long long mask = 0;
#pragma unroll 2
  for (unsigned i = begin; i < end; ++i) {
    const int position = sorted.positions[i];
    const int place = sorted.place(position);
    const unsigned long long bit = 1ull << place;
    const Value value = __ldg(from + position);
    places[place] = mask & bit ? narrow<Value>(widen(places[place]) + widen(value)) : value;
    mask |= bit;
  }
  occupied[block] = mask;
}

// One thread for each block row and one past the end: the first block that is not in a block row before it.
__global__ void find_block_rows_kernel(const std::int32_t* __restrict__ block_rows, unsigned num_blocks,
                                       std::int64_t num_block_rows, std::int32_t* __restrict__ indptr) {
  const std::int64_t row = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (row > num_block_rows) return;
  unsigned low = 0;
  for (unsigned high = num_blocks; low < high;) {
    const unsigned middle = low + (high - low) / 2;
    if (__ldg(block_rows + middle) < row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  indptr[row] = static_cast<std::int32_t>(low);
}

}  // namespace

device_bsr::device_bsr(const device_csr& matrix, block_shape block, const std::function<void(const sizes&)>& accept,
                       const device_allocator& allocate)
    : num_rows_(matrix.num_rows()),
      num_cols_(matrix.num_cols()),
      dtype_(matrix.dtype()),
      block_(block),
      stream_(matrix.stream()) {
  if (matrix.nnz() == 0) {
    accept({0, false});
    indptr_ = {static_cast<std::size_t>(num_block_rows()) + 1, allocate};
    fill_device(indptr_.data(), 0, indptr_.bytes(), stream_);
    return;
  }
  if (matrix.summary().longest_row <= longest_merged_row && merge(matrix, accept, allocate)) return;
  const int column_bits = bits_for(static_cast<std::uint64_t>((num_cols_ - 1) / block.cols));
  if (column_bits + bits_for(static_cast<std::uint64_t>(num_block_rows() - 1)) <= 32) {
    convert<std::uint32_t>(matrix, column_bits, accept, allocate);
  } else {
    convert<std::uint64_t>(matrix, column_bits, accept, allocate);
  }
}

bool device_bsr::merge(const device_csr& matrix, const std::function<void(const sizes&)>& accept,
                       const device_allocator& allocate) {
  const csr_rows_view A{static_cast<unsigned>(num_rows_), static_cast<unsigned>(num_block_rows()),
                        static_cast<unsigned>(matrix.nnz()), matrix.indptr32(), matrix.indices()};
  const pooled_memory counts(num_block_rows() * sizeof(std::int32_t) + sizeof(merged_sizes), stream_);
  auto* const begins = counts.as<std::int32_t>();
  auto* const sizes_behind = reinterpret_cast<merged_sizes*>(begins + num_block_rows());
  fill_device(sizes_behind, 0, sizeof(merged_sizes), stream_);
  dispatch_shape(block_, [&](auto rows, auto cols) {
    constexpr int log2_cols = log2_of(cols);
    count_blocks_kernel<rows>
        <<<blocks_for(num_block_rows() * rows), threads_per_merging_block, 0, stream_>>>(A, log2_cols, 1, begins);
  });
  check_launch("count_blocks_kernel");
  // The total takes the place behind the last count: merged_sizes::num_blocks.
  exclusive_scan(begins, begins, num_block_rows() + 1, stream_);
  const merged_sizes found = read_back(sizes_behind, stream_);
  if (found.unsorted != 0) return false;
  accept({found.num_blocks * static_cast<std::int64_t>(block_.places()), size_of(dtype_) == 2 && found.repeats != 0});

  allocate_blocks(found.num_blocks, allocate);
  dispatch_device_type(dtype_, [&](auto value) {
    using device_value = decltype(value);
    dispatch_shape(block_, [&](auto rows, auto cols) {
      merge_blocks_kernel<rows, cols><<<blocks_for((num_block_rows() + 1) * rows), threads_per_block, 0, stream_>>>(
          A, matrix.values<device_value>(), begins, indptr_.data(), indices_.data(),
          reinterpret_cast<device_value*>(data_.data()), occupied_.data());
    });
  });
  check_launch("merge_blocks_kernel");
  return true;
}

void device_bsr::allocate_blocks(std::int64_t num_blocks, const device_allocator& allocate) {
  indptr_ = {static_cast<std::size_t>(num_block_rows()) + 1, allocate};
  indices_ = {static_cast<std::size_t>(num_blocks), allocate};
  data_ = {num_blocks * block_.places() * size_of(dtype_), allocate};
  occupied_ = {static_cast<std::size_t>(num_blocks), pooled_allocator(stream_)};
}

template <class Key>
void device_bsr::convert(const device_csr& matrix, int column_bits, const std::function<void(const sizes&)>& accept,
                         const device_allocator& allocate) {
  const auto nnz = static_cast<unsigned>(matrix.nnz());
  const pooled_memory rows(nnz * sizeof(std::int32_t), stream_);
  const pooled_memory sorted_keys(nnz * sizeof(Key), stream_);
  const pooled_memory positions(nnz * sizeof(std::int32_t), stream_);
  {
    const pooled_memory keys(nnz * sizeof(Key), stream_);
    const pooled_memory in_order(nnz * sizeof(std::int32_t), stream_);
    const unsigned share = nnz_per_warp(nnz);
    key_nonzeros_kernel<<<blocks_for((std::int64_t{nnz} + share - 1) / share * 32), threads_per_block, 0, stream_>>>(
        matrix.indptr32(), matrix.indices(), static_cast<int>(num_rows_), nnz, share,
        std::countr_zero(static_cast<unsigned>(block_.rows)), std::countr_zero(static_cast<unsigned>(block_.cols)),
        column_bits, keys.as<Key>(), rows.as<std::int32_t>(), in_order.as<std::int32_t>());
    check_launch("key_nonzeros_kernel");
    sort_pairs(keys.as<const Key>(), sorted_keys.as<Key>(), in_order.as<const std::int32_t>(),
               positions.as<std::int32_t>(), nnz,
               column_bits + bits_for(static_cast<std::uint64_t>(num_block_rows() - 1)), stream_);
  }
  const pooled_memory begins(nnz * sizeof(std::int32_t), stream_);
  const pooled_memory counts(2 * sizeof(std::int32_t), stream_);  // blocks, and whether entries repeat
  fill_device(counts.data(), 0, 2 * sizeof(std::int32_t), stream_);
  {
    const pooled_memory flags(nnz, stream_);
    flag_blocks_kernel<<<blocks_for(nnz), threads_per_block, 0, stream_>>>(sorted_keys.as<const Key>(), nnz,
                                                                           flags.as<std::uint8_t>());
    check_launch("flag_blocks_kernel");
    select_positions(flags.as<const std::uint8_t>(), begins.as<std::int32_t>(), counts.as<std::int32_t>(), nnz,
                     stream_);
  }
  const sorted_view sorted{positions.as<const std::int32_t>(),
                           begins.as<const std::int32_t>(),
                           counts.as<const std::int32_t>(),
                           rows.as<const std::int32_t>(),
                           matrix.indices(),
                           nnz,
                           block_};
  if (size_of(dtype_) == 2) {
    find_repeats_kernel<<<blocks_for(nnz), threads_per_block, 0, stream_>>>(sorted, counts.as<std::int32_t>() + 1);
    check_launch("find_repeats_kernel");
  }
  std::int32_t found[2];
  copy_to_host(found, counts.data(), sizeof(found), stream_);
  const std::int64_t num_blocks = found[0];
  const std::int64_t places = num_blocks * block_.places();
  accept({places, found[1] != 0});

  allocate_blocks(num_blocks, allocate);
  fill_device(data_.data(), 0, data_.bytes(), stream_);
  const pooled_memory block_rows(num_blocks * sizeof(std::int32_t), stream_);
  dispatch_device_type(dtype_, [&](auto value) {
    using device_value = decltype(value);
    fill_blocks_kernel<<<blocks_for(num_blocks), threads_per_block, 0, stream_>>>(
        sorted, sorted_keys.as<const Key>(), column_bits, matrix.values<device_value>(),
        static_cast<unsigned>(num_blocks), block_rows.as<std::int32_t>(), indices_.data(),
        reinterpret_cast<device_value*>(data_.data()), occupied_.data());
  });
  check_launch("fill_blocks_kernel");
  find_block_rows_kernel<<<blocks_for(num_block_rows() + 1), threads_per_block, 0, stream_>>>(
      block_rows.as<const std::int32_t>(), static_cast<unsigned>(num_blocks), num_block_rows(), indptr_.data());
  check_launch("find_block_rows_kernel");
}

bsr_matrix device_bsr::download() const {
  bsr_matrix result;
  result.num_rows = num_rows_;
  result.num_cols = num_cols_;
  result.dtype = dtype_;
  result.block = block_;
  std::vector<std::int32_t> indptr(indptr_.size());
  copy_to_host(indptr.data(), indptr_.data(), indptr_.bytes(), stream_);
  result.indptr.assign(indptr.begin(), indptr.end());
  result.indices.resize(indices_.size());
  copy_to_host(result.indices.data(), indices_.data(), indices_.bytes(), stream_);
  result.data.resize(data_.size());
  copy_to_host(result.data.data(), data_.data(), data_.bytes(), stream_);
  result.occupied.resize(occupied_.size());
  copy_to_host(result.occupied.data(), occupied_.data(), occupied_.bytes(), stream_);
  for (const std::uint64_t bits : result.occupied) result.num_entries += std::popcount(bits);
  return result;
}

}  // namespace warploom::cuda

namespace warploom {

std::unique_ptr<stored_matrix> bsr_on_gpu(const device_csr& matrix, const option_values& options) {
  const int block_size = options.integer("block_size");
  check_block_size(block_size);
  const auto accept = [](const cuda::device_bsr::sizes&) {};
  return stored(cuda::device_bsr(matrix, {block_size, block_size}, accept, allocate_device_memory).download());
}

}  // namespace warploom
