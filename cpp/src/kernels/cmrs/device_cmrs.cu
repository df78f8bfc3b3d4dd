// Conversion from CSR to CMRS on the GPU.
#include "kernels/cmrs/device_cmrs.hpp"
#include "kernels/device/nonzeros.cuh"

namespace warploom::cuda {
namespace {

constexpr int threads_per_block = 128;
constexpr int warp_size = 32;

template <bool Packed>
__device__ __forceinline__ void store_place(unsigned j, unsigned row_in_strip, const std::int32_t* __restrict__ indices,
                                            std::uint32_t* __restrict__ words, std::uint8_t* __restrict__ rows) {
  if constexpr (Packed) {
    words[j] = static_cast<std::uint32_t>(__ldcs(indices + j)) << cmrs_matrix::row_bits | row_in_strip;
  } else {
    rows[j] = static_cast<std::uint8_t>(row_in_strip);
  }
}

template <bool Packed>
__global__ void __launch_bounds__(threads_per_block)
    cmrs_from_csr_kernel(int num_rows, unsigned num_strips, unsigned height, unsigned nnz, unsigned nnz_per_warp,
                         const std::int32_t* __restrict__ indptr, const std::int32_t* __restrict__ indices,
                         std::int32_t* __restrict__ strip_ptr, std::uint32_t* __restrict__ words,
                         std::uint8_t* __restrict__ rows) {
  const unsigned thread = blockIdx.x * threads_per_block + threadIdx.x;
  for (std::uint64_t strip = thread; strip <= num_strips; strip += gridDim.x * threads_per_block) {
    strip_ptr[strip] = indptr[min(strip * height, static_cast<std::uint64_t>(num_rows))];
  }

  const unsigned begin = thread / warp_size * nnz_per_warp;
  for_each_nonzero(indptr, num_rows, begin, min(begin + nnz_per_warp, nnz), [&](unsigned j, int row, bool there) {
    if (there) store_place<Packed>(j, row % height, indices, words, rows);
  });
}

}  // namespace

device_cmrs::device_cmrs(const device_csr& matrix, const product_request& request, const device_allocator& allocate)
    : options_(cmrs_options_of(request.parameters)),
      num_rows_(static_cast<unsigned>(matrix.num_rows())),
      num_strips_((num_rows_ + options_.height - 1) / options_.height) {
  if (options_.sort_columns || options_.modulo != 0) {
    make_on_host(matrix, allocate);
  } else {
    make_on_device(matrix, allocate);
  }
}

void device_cmrs::make_on_device(const device_csr& matrix, const device_allocator& allocate) {
  csr_ = matrix.kept(allocate);
  strip_ptr_ = device_array<std::int32_t>(num_strips_ + std::size_t{1}, allocate);
  if (options_.packed) {
    columns_ = device_array<std::uint32_t>(csr_->nnz(), allocate);
  } else {
    rows_ = device_array<std::uint8_t>(csr_->nnz(), allocate);
  }
  convert(matrix.stream());
}

void device_cmrs::make_on_host(const device_csr& matrix, const device_allocator& allocate) {
  const cmrs_matrix stored = to_cmrs(matrix.host(), options_);
  const std::vector<std::int32_t> strip_ptr(stored.strip_ptr.begin(), stored.strip_ptr.end());
  const void* columns = stored.options.packed ? static_cast<const void*>(stored.words.data()) : stored.indices.data();
  strip_ptr_ = upload(strip_ptr.data(), strip_ptr.size(), allocate, matrix.stream());
  columns_ = upload(static_cast<const std::uint32_t*>(columns), stored.num_places(), allocate, matrix.stream());
  rows_ = upload(stored.row_in_strip.data(), stored.row_in_strip.size(), allocate, matrix.stream());
  data_ = upload(stored.data.data(), stored.data.size(), allocate, matrix.stream());
}

void device_cmrs::convert(CUstream_st* stream) const {
  constexpr std::int64_t max_blocks_for_strips = 1024;
  const std::int64_t nnz = csr_->nnz();
  const unsigned share = nnz_per_warp(nnz);
  const std::int64_t nnz_per_block = std::int64_t{share} * (threads_per_block / warp_size);
  const std::int64_t blocks =
      std::max((nnz + nnz_per_block - 1) / nnz_per_block,
               std::min(std::int64_t{num_strips_} / threads_per_block + 1, max_blocks_for_strips));
  const auto launch = [&](auto kernel) {
    kernel<<<static_cast<unsigned>(blocks), threads_per_block, 0, stream>>>(
        static_cast<int>(num_rows_), num_strips_, static_cast<unsigned>(options_.height), static_cast<unsigned>(nnz),
        share, csr_->indptr32(), csr_->indices(), strip_ptr_.data(), columns_.data(), rows_.data());
  };
  options_.packed ? launch(cmrs_from_csr_kernel<true>) : launch(cmrs_from_csr_kernel<false>);
  check_launch("cmrs_from_csr_kernel");
}

}  // namespace warploom::cuda
