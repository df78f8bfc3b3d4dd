// Conversion from CSR to a dense matrix on the GPU: all places are cleared, and each nonzero is written to its own.
// Bits of the places tell whether two nonzeros share one. If any do, a thread for each row writes them again, adding up
// those in the order in which they are stored.
#include <bit>

#include "device/workspace.hpp"
#include "kernels/dense/device_dense.hpp"
#include "kernels/device/nonzeros.cuh"
#include "kernels/device/values.cuh"
#include "warploom/device.hpp"
#include "warploom/error.hpp"
#include "warploom/formats/format.hpp"

namespace warploom::cuda {
namespace {

constexpr int threads_per_block = 256;

// The places that are written, and the bits of those that hold an entry.
template <class Value>
struct places_view {
  Value* data;
  std::int64_t leading_dimension;
  std::uint32_t* occupied;
  std::int64_t words_per_row;

  __device__ Value& value(int row, int column) const { return data[row * leading_dimension + column]; }
  __device__ std::uint32_t& word(int row, int column) const { return occupied[row * words_per_row + column / 32]; }
};

// Values are only moved: `Value` is an unsigned integer of their size. `repeats` becomes 1 if nonzeros share a place.
template <class Value>
__global__ void __launch_bounds__(threads_per_block)
    scatter_nonzeros_kernel(const std::int32_t* __restrict__ indptr, const std::int32_t* __restrict__ indices,
                            const Value* __restrict__ from, int num_rows, unsigned nnz, unsigned nnz_of_warp,
                            const places_view<Value> places, std::int32_t* __restrict__ repeats) {
  const std::int64_t first = (std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x) / 32 * nnz_of_warp;
  if (first >= nnz) return;  // whole warps
  const auto begin = static_cast<unsigned>(first);
  for_each_nonzero(indptr, num_rows, begin, min(begin + nnz_of_warp, nnz), [&](unsigned j, int row, bool there) {
    if (!there) return;
    const int column = __ldcs(indices + j);
    const std::uint32_t bit = std::uint32_t{1} << column % 32;
    if (atomicOr(&places.word(row, column), bit) & bit) *repeats = 1;
    places.value(row, column) = __ldcs(from + j);
  });
}

// One thread for each row. All bits are cleared before.
template <class Value>
__global__ void __launch_bounds__(threads_per_block)
    add_nonzeros_kernel(const std::int32_t* __restrict__ indptr, const std::int32_t* __restrict__ indices,
                        const Value* __restrict__ from, int num_rows, const places_view<Value> places) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (thread >= num_rows) return;
  const int row = static_cast<int>(thread);
  for (int j = indptr[row]; j < indptr[row + 1]; ++j) {
    const int column = indices[j];
    const std::uint32_t bit = std::uint32_t{1} << column % 32;
    Value& value = places.value(row, column);
    std::uint32_t& word = places.word(row, column);
    value = (word & bit) != 0 ? narrow<Value>(widen(value) + widen(from[j])) : from[j];
    word |= bit;
  }
}

}  // namespace

device_dense::device_dense(const device_csr& matrix, const std::function<void(bool)>& accept,
                           const device_allocator& allocate, std::int64_t rows_below)
    : shape_{matrix.num_rows(), matrix.num_cols(), matrix.dtype()}, stream_(matrix.stream()) {
  check_dense_size(shape_);
  data_ = {(shape_.places() + rows_below * shape_.leading_dimension()) * size_of(shape_.dtype), allocate};
  if (data_.size() > 0) fill_device(data_.data(), 0, data_.bytes(), stream_);
  occupied_ = {static_cast<std::size_t>(shape_.num_rows * shape_.words_per_row()), pooled_allocator(stream_)};
  if (occupied_.size() > 0) fill_device(occupied_.data(), 0, occupied_.bytes(), stream_);
  if (matrix.nnz() == 0) {
    accept(false);
    return;
  }
  const auto nnz = static_cast<unsigned>(matrix.nnz());
  const auto num_rows = static_cast<int>(shape_.num_rows);
  const unsigned share = nnz_per_warp(nnz);
  const pooled_memory repeats(sizeof(std::int32_t), stream_);
  fill_device(repeats.data(), 0, sizeof(std::int32_t), stream_);
  dispatch_bits(shape_.dtype, [&](auto bits) {
    using value = decltype(bits);
    scatter_nonzeros_kernel<<<blocks_for((std::int64_t{nnz} + share - 1) / share * 32), threads_per_block, 0,
                              stream_>>>(
        matrix.indptr32(), matrix.indices(), matrix.values<value>(), num_rows, nnz, share,
        places_view<value>{reinterpret_cast<value*>(data_.data()), shape_.leading_dimension(), occupied_.data(),
                           shape_.words_per_row()},
        repeats.as<std::int32_t>());
  });
  check_launch("scatter_nonzeros_kernel");
  const bool found = read_back(repeats.as<const std::int32_t>(), stream_) != 0;
  accept(found);
  if (!found) return;
  fill_device(occupied_.data(), 0, occupied_.bytes(), stream_);
  dispatch_device_type(shape_.dtype, [&](auto value) {
    using device_value = decltype(value);
    add_nonzeros_kernel<<<blocks_for(num_rows), threads_per_block, 0, stream_>>>(
        matrix.indptr32(), matrix.indices(), matrix.values<device_value>(), num_rows,
        places_view<device_value>{reinterpret_cast<device_value*>(data_.data()), shape_.leading_dimension(),
                                  occupied_.data(), shape_.words_per_row()});
  });
  check_launch("add_nonzeros_kernel");
}

dense_matrix device_dense::download() const {
  dense_matrix result;
  result.num_rows = shape_.num_rows;
  result.num_cols = shape_.num_cols;
  result.dtype = shape_.dtype;
  result.data.resize(data_.size());
  copy_to_host(result.data.data(), data_.data(), data_.bytes(), stream_);
  result.occupied.resize(occupied_.size());
  copy_to_host(result.occupied.data(), occupied_.data(), occupied_.bytes(), stream_);
  for (const std::uint32_t bits : result.occupied) result.num_entries += std::popcount(bits);
  return result;
}

}  // namespace warploom::cuda

namespace warploom {

std::unique_ptr<stored_matrix> dense_on_gpu(const device_csr& matrix, const option_values&) {
  return stored(cuda::device_dense(matrix, [](bool) {}, allocate_device_memory).download());
}

}  // namespace warploom
