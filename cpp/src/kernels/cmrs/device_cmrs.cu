// Conversion from CSR to CMRS on the GPU.
//
// The nonzeros, not the rows, are distributed over warps, so that one long row takes no longer than many short ones. A
// warp looks up the row of its first nonzero and then walks through `indptr` 32 rows at a time.
#include "kernels/cmrs/device_cmrs.hpp"
#include "kernels/device/warp.cuh"

namespace warploom::cuda {
namespace {

constexpr int threads_per_block = 128;
constexpr int warp_size = 32;

// The row r in [first, num_rows) with indptr[r] <= j < indptr[r + 1]. Each step probes 32 places at once.
__device__ int find_row(const std::int32_t* __restrict__ indptr, int first, int num_rows, unsigned j, int lane) {
  int end = num_rows;  // indptr[first] <= j < indptr[end]
  while (end - first > 1) {
    const int step = (end - first + warp_size - 1) / warp_size;
    const int probe = static_cast<int>(
        min(static_cast<unsigned>(first) + lane * static_cast<unsigned>(step), static_cast<unsigned>(end)));
    const unsigned not_past = ballot(probe < end && static_cast<unsigned>(__ldg(indptr + probe)) <= j);
    first += (__popc(not_past) - 1) * step;
    end = min(end - first, step) + first;
  }
  return first;
}

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

  const int lane = threadIdx.x % warp_size;
  unsigned j = thread / warp_size * nnz_per_warp;  // fewer than 2^31 nonzeros: nothing below wraps around
  if (j >= nnz) return;                            // whole warps
  const unsigned end = min(j + nnz_per_warp, nnz);
  int row = find_row(indptr, 0, num_rows, j, lane);
  while (true) {
    // Lane i handles row + i; the nonzeros up to `stop` are in these 32 rows.
    const unsigned start = indptr[min(std::int64_t{row} + lane, std::int64_t{num_rows})];
    const unsigned window_end = indptr[min(std::int64_t{row} + warp_size, std::int64_t{num_rows})];
    const unsigned stop = min(end, window_end);
#pragma unroll 4
    for (; j < stop; j += warp_size) {
      const unsigned mine = j + lane;
      int offset = 0;  // the last of the 32 rows that does not start past `mine`
#pragma unroll
      for (int half = warp_size / 2; half > 0; half /= 2) {
        if (from_lane(start, offset + half) <= mine) offset += half;
      }
      if (mine < stop) store_place<Packed>(mine, (row + offset) % height, indices, words, rows);
    }
    if (stop == end) return;
    j = stop;
    row = find_row(indptr, row + warp_size, num_rows, j, lane);  // the next may be far: rows between can be empty
  }
}

}  // namespace

device_cmrs::device_cmrs(const device_csr& matrix, const product_request& request, const device_allocator& allocate)
    : options_(cmrs_options_of(request.parameters)),
      num_rows_(static_cast<unsigned>(matrix.num_rows())),
      num_strips_((num_rows_ + options_.height - 1) / options_.height) {
  if (options_.sort_columns || options_.modulo != 0) {
    make_on_host(matrix.host(), allocate);
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

void device_cmrs::make_on_host(const csr_view& matrix, const device_allocator& allocate) {
  const cmrs_matrix stored = to_cmrs(matrix, options_);
  const std::vector<std::int32_t> strip_ptr(stored.strip_ptr.begin(), stored.strip_ptr.end());
  const void* columns = stored.options.packed ? static_cast<const void*>(stored.words.data()) : stored.indices.data();
  strip_ptr_ = upload(strip_ptr.data(), strip_ptr.size(), allocate);
  columns_ = upload(static_cast<const std::uint32_t*>(columns), stored.num_places(), allocate);
  rows_ = upload(stored.row_in_strip.data(), stored.row_in_strip.size(), allocate);
  data_ = upload(stored.data.data(), stored.data.size(), allocate);
}

void device_cmrs::convert(CUstream_st* stream) const {
  // In large matrices many nonzeros amortise the search for a row; small ones need many warps instead.
  constexpr std::int64_t many = 1 << 20;
  constexpr std::int64_t max_blocks_for_strips = 1024;
  const std::int64_t nnz = csr_->nnz();
  const unsigned nnz_per_warp = nnz >= many ? 512 : 128;
  const std::int64_t nnz_per_block = std::int64_t{nnz_per_warp} * (threads_per_block / warp_size);
  const std::int64_t blocks =
      std::max((nnz + nnz_per_block - 1) / nnz_per_block,
               std::min(std::int64_t{num_strips_} / threads_per_block + 1, max_blocks_for_strips));
  const auto launch = [&](auto kernel) {
    kernel<<<static_cast<unsigned>(blocks), threads_per_block, 0, stream>>>(
        static_cast<int>(num_rows_), num_strips_, static_cast<unsigned>(options_.height), static_cast<unsigned>(nnz),
        nnz_per_warp, csr_->indptr32(), csr_->indices(), strip_ptr_.data(), columns_.data(), rows_.data());
  };
  options_.packed ? launch(cmrs_from_csr_kernel<true>) : launch(cmrs_from_csr_kernel<false>);
  check_launch("cmrs_from_csr_kernel");
}

}  // namespace warploom::cuda
