// The eleven features of a matrix in GPU memory. One kernel reads indptr once; every thread block writes its
// results to host memory, where the few hundred of them are added: no second launch, no copy, nothing to be zeroed.
//
// The variance comes from the exact sum of squares, in 128 bits, so that it does not depend on any order.
#include <algorithm>
#include <array>
#include <memory>

#include "features/device_boundary.hpp"
#include "kernels/device/warp.cuh"

namespace warploom {
namespace {

constexpr int threads_per_block = 512;
constexpr int warps_per_block = threads_per_block / 32;
constexpr int rows_at_once = 4;  // independent loads of a thread

using uint128 = unsigned __int128;

// Of the rows of a thread, a warp or a block. All zero: of no rows.
struct lengths_seen {
  std::uint64_t squares_low;  // sum of squared lengths
  std::uint64_t squares_high;
  std::uint64_t longest;
  std::uint64_t not_shortest;  // complement of the shortest length
  std::uint64_t decrease;      // positions, as maxima
  std::uint64_t out_of_range;
  std::uint64_t empty;
  std::int64_t first_offset;  // these two by block 0 only
  std::int64_t nnz;

  __host__ __device__ uint128 squares() const { return uint128{squares_high} << 64 | squares_low; }
  __host__ __device__ void set_squares(uint128 sum) {
    squares_low = static_cast<std::uint64_t>(sum);
    squares_high = static_cast<std::uint64_t>(sum >> 64);
  }
  __host__ __device__ void merge(const lengths_seen& other) {
    set_squares(squares() + other.squares());
    longest = longest < other.longest ? other.longest : longest;
    not_shortest = not_shortest < other.not_shortest ? other.not_shortest : not_shortest;
    decrease = decrease < other.decrease ? other.decrease : decrease;
    out_of_range = out_of_range < other.out_of_range ? other.out_of_range : out_of_range;
    empty += other.empty;
  }
};

__device__ lengths_seen of_lane(const lengths_seen& seen, int offset) {
  lengths_seen other{};
  other.squares_low = cuda::exchange(seen.squares_low, offset);
  other.squares_high = cuda::exchange(seen.squares_high, offset);
  other.longest = cuda::exchange(seen.longest, offset);
  other.not_shortest = cuda::exchange(seen.not_shortest, offset);
  other.decrease = cuda::exchange(seen.decrease, offset);
  other.out_of_range = cuda::exchange(seen.out_of_range, offset);
  other.empty = cuda::exchange(seen.empty, offset);
  return other;
}

__device__ void merge_warp(lengths_seen& seen) {
  for (int offset = 16; offset > 0; offset /= 2) seen.merge(of_lane(seen, offset));
}

// What block `block` of `num_blocks` does. `narrow` is written unless it is null.
template <class Offset>
__device__ __forceinline__ void see_lengths(unsigned block, unsigned num_blocks, unsigned num_rows,
                                            const Offset* __restrict__ indptr, std::int64_t num_indices,
                                            std::int32_t* __restrict__ narrow, lengths_seen* __restrict__ of_blocks) {
  __shared__ lengths_seen of_warps[warps_per_block];
  const unsigned stride = num_blocks * threads_per_block;
  lengths_seen seen{};
  uint128 squares = 0;
  for (unsigned first = block * threads_per_block + threadIdx.x; first < num_rows; first += rows_at_once * stride) {
    Offset begin[rows_at_once];
    Offset end[rows_at_once];
#pragma unroll
    for (int u = 0; u < rows_at_once; ++u) {
      const unsigned row = first + u * stride;
      begin[u] = row < num_rows ? indptr[row] : 0;
      end[u] = row < num_rows ? indptr[row + 1] : 0;
    }
#pragma unroll
    for (int u = 0; u < rows_at_once; ++u) {
      const unsigned row = first + u * stride;
      if (row >= num_rows) continue;
      if (narrow != nullptr) narrow[row] = static_cast<std::int32_t>(begin[u]);
      const auto position = cuda::as_maximum(std::uint64_t{row} + 1);
      if (end[u] < begin[u] && seen.decrease < position) seen.decrease = position;
      if (end[u] > num_indices && seen.out_of_range < position) seen.out_of_range = position;
      // Of a malformed matrix nothing else is used.
      const std::uint64_t length = static_cast<std::uint64_t>(end[u]) - static_cast<std::uint64_t>(begin[u]);
      squares += uint128{length} * length;
      seen.empty += length == 0;
      seen.longest = seen.longest < length ? length : seen.longest;
      seen.not_shortest = seen.not_shortest < ~length ? ~length : seen.not_shortest;
    }
  }
  seen.set_squares(squares);
  merge_warp(seen);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = seen;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  seen = threadIdx.x < warps_per_block ? of_warps[threadIdx.x] : lengths_seen{};
  merge_warp(seen);
  if (threadIdx.x != 0) return;
  if (block == 0) {
    seen.first_offset = indptr[0];
    seen.nnz = indptr[num_rows];
    if (narrow != nullptr) narrow[num_rows] = static_cast<std::int32_t>(seen.nnz);
  }
  of_blocks[block] = seen;
}

template <class Offset>
__global__ void __launch_bounds__(threads_per_block)
    row_lengths_kernel(unsigned num_rows, const Offset* __restrict__ indptr, std::int64_t num_indices,
                       lengths_seen* __restrict__ of_blocks) {
  see_lengths(blockIdx.x, gridDim.x, num_rows, indptr, num_indices, static_cast<std::int32_t*>(nullptr), of_blocks);
}

// Finds the first column that does not exist, as a maximum.
template <class Index>
__device__ __forceinline__ void check_columns(unsigned block, unsigned num_blocks, std::int64_t end,
                                              std::int64_t num_cols, const Index* __restrict__ indices,
                                              std::int32_t* __restrict__ narrow,
                                              std::uint64_t* __restrict__ of_blocks) {
  __shared__ std::uint64_t of_warps[warps_per_block];
  const std::int64_t stride = std::int64_t{num_blocks} * threads_per_block;
  std::uint64_t outside = cuda::no_position;
  for (std::int64_t j = std::int64_t{block} * threads_per_block + threadIdx.x; j < end; j += stride) {
    const Index column = indices[j];
    if (column < 0 || column >= num_cols) outside = max(outside, cuda::as_maximum(j));
    if (narrow != nullptr) narrow[j] = static_cast<std::int32_t>(column);
  }
  outside = cuda::warp_maximum(outside);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = outside;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (const std::uint64_t of_warp : of_warps) outside = max(outside, of_warp);
  of_blocks[block] = outside;
}

template <class Offset, class Index>
struct check_task {
  unsigned num_rows;
  std::int64_t num_cols;
  std::int64_t num_indices;
  const Offset* indptr;
  const Index* indices;
  std::int32_t* narrow_indptr;   // or null
  std::int32_t* narrow_indices;  // or null
  unsigned row_blocks;
  lengths_seen* of_row_blocks;
  std::uint64_t* of_index_blocks;
};

// The first thread blocks look at rows, the others at columns.
template <class Offset, class Index>
__global__ void __launch_bounds__(threads_per_block) check_matrix_kernel(const check_task<Offset, Index> A) {
  if (blockIdx.x < A.row_blocks) {
    see_lengths(blockIdx.x, A.row_blocks, A.num_rows, A.indptr, A.num_indices, A.narrow_indptr, A.of_row_blocks);
    return;
  }
  // What lies behind the last nonzero is nobody's concern.
  const auto end = min(static_cast<std::int64_t>(A.indptr[A.num_rows]), A.num_indices);
  check_columns(blockIdx.x - A.row_blocks, gridDim.x - A.row_blocks, end, A.num_cols, A.indices, A.narrow_indices,
                A.of_index_blocks);
}

constexpr std::int64_t max_blocks = cuda::pinned_memory::bytes / sizeof(lengths_seen);

int resident_blocks(std::int64_t num_rows) {
  const std::int64_t wanted = (num_rows + threads_per_block * rows_at_once - 1) / (threads_per_block * rows_at_once);
  const std::int64_t resident = 2 * cuda::device_attribute(cudaDevAttrMultiProcessorCount);
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, std::min(resident, max_blocks)));
}

int blocks_for_columns(std::int64_t num_indices) {
  constexpr std::int64_t each = 4 * threads_per_block, most = 512;
  static_assert(most * sizeof(std::uint64_t) <= cuda::pinned_memory::bytes);
  return static_cast<int>(std::clamp<std::int64_t>((num_indices + each - 1) / each, 1, most));
}

// The mean squared deviation from the mean, from integers: (m sum l^2 - nnz^2) / m^2.
double variance(std::int64_t num_rows, std::int64_t nnz, uint128 squares) {
  if (num_rows == 0) return 0.0;
  const auto rows = static_cast<double>(num_rows);
  const uint128 difference = static_cast<uint128>(num_rows) * squares - static_cast<uint128>(nnz) * nnz;
  return static_cast<double>(difference) / rows / rows;
}

}  // namespace

namespace cuda {

pending_row_statistics::pending_row_statistics(const device_csr_arrays& matrix, cudaStream_t stream)
    : matrix_(matrix), blocks_(resident_blocks(matrix.num_rows)) {
  const auto launch = [&](const auto* indptr) {
    row_lengths_kernel<<<blocks_, threads_per_block, 0, stream>>>(static_cast<unsigned>(matrix.num_rows), indptr,
                                                                  matrix.num_indices, results_.as<lengths_seen>());
  };
  if (matrix.wide_indptr) {
    launch(static_cast<const std::int64_t*>(matrix.indptr));
  } else {
    launch(static_cast<const std::int32_t*>(matrix.indptr));
  }
  check_launch("row_lengths_kernel");
}

namespace {

row_statistics add_up(const device_csr_arrays& matrix, const lengths_seen* of_blocks, int blocks) {
  lengths_seen all = of_blocks[0];
  for (int block = 1; block < blocks; ++block) all.merge(of_blocks[block]);
  check_offsets({all.first_offset, all.nnz, all.decrease, all.out_of_range}, matrix);
  return {{{matrix.num_rows, matrix.num_cols, all.nnz},
           summary(matrix.num_rows, all.nnz, static_cast<std::int64_t>(~all.not_shortest),
                   static_cast<std::int64_t>(all.longest)),
           variance(matrix.num_rows, all.nnz, all.squares())},
          static_cast<std::int64_t>(all.empty)};
}

}  // namespace

row_statistics pending_row_statistics::read() const {
  return add_up(matrix_, results_.as<const lengths_seen>(), blocks_);
}

pending_matrix_check::pending_matrix_check(const device_csr_arrays& matrix, std::int32_t* narrow_indptr,
                                           std::int32_t* narrow_indices, cudaStream_t stream)
    : matrix_(matrix),
      row_blocks_(resident_blocks(matrix.num_rows)),
      index_blocks_(blocks_for_columns(matrix.num_indices)) {
  const auto launch = [&](const auto* indptr, const auto* indices) {
    const check_task task{static_cast<unsigned>(matrix.num_rows),
                          matrix.num_cols,
                          matrix.num_indices,
                          indptr,
                          indices,
                          matrix.wide_indptr ? narrow_indptr : nullptr,
                          matrix.wide_indices ? narrow_indices : nullptr,
                          static_cast<unsigned>(row_blocks_),
                          of_rows_.as<lengths_seen>(),
                          of_indices_.as<std::uint64_t>()};
    check_matrix_kernel<<<row_blocks_ + index_blocks_, threads_per_block, 0, stream>>>(task);
  };
  const auto with_indices = [&](const auto* indptr) {
    if (matrix.wide_indices) {
      launch(indptr, static_cast<const std::int64_t*>(matrix.indices));
    } else {
      launch(indptr, static_cast<const std::int32_t*>(matrix.indices));
    }
  };
  if (matrix.wide_indptr) {
    with_indices(static_cast<const std::int64_t*>(matrix.indptr));
  } else {
    with_indices(static_cast<const std::int32_t*>(matrix.indptr));
  }
  check_launch("check_matrix_kernel");
}

row_statistics pending_matrix_check::read() const {
  const row_statistics found = add_up(matrix_, of_rows_.as<const lengths_seen>(), row_blocks_);
  const auto* const outside = of_indices_.as<const std::uint64_t>();
  check_indices(*std::max_element(outside, outside + index_blocks_), found.lengths.size.nnz, matrix_);
  return found;
}

}  // namespace cuda

row_statistics compute_cuda_row_statistics(const device_csr_arrays& matrix, CUstream_st* stream) {
  const cuda::pending_row_statistics pending(matrix, stream);
  synchronize(stream);
  return pending.read();
}

pending_features start_cuda_spmv_features(const device_csr_arrays& matrix, const geometry&, CUstream_st* stream) {
  struct run {
    run(const device_csr_arrays& matrix, cudaStream_t stream) : statistics(matrix, stream), work(stream) {}
    cuda::pending_row_statistics statistics;
    cuda::enqueued_work work;
  };
  return [started = std::make_shared<run>(matrix, stream)] {
    started->work.wait();
    std::vector<double> values(spmv_features.names.size());
    write_features(started->statistics.read().lengths, values.data());
    return values;
  };
}

}  // namespace warploom
