// The features of column vectors of a matrix in GPU memory: memory is cleared, two kernels run, and one small copy
// comes back.
//
// The first kernel looks at each nonzero by itself, so that neither long rows nor full windows cause imbalance, and
// counts vectors for each window; the second one adds up windows. All counts are integers: they do not depend on any
// order. A matrix whose columns do not ascend within rows is noticed on the way; it is then counted again with its
// columns sorted.
#include <algorithm>

#include "device/device_csr.hpp"
#include "features/column_vectors.hpp"
#include "features/device_boundary.hpp"
#include "features/divider.hpp"
#include "kernels/device/rows.cuh"
#include "kernels/device/warp.cuh"

namespace warploom {
namespace {

constexpr int threads_per_block = 256;
constexpr int nonzeros_per_block = 8 * threads_per_block;  // at once

struct counts_found {
  unsigned long long vectors_8, single_8, dense_8;
  unsigned long long vectors_16, single_16, dense_16;
  unsigned long long unsorted;  // not 0 if a row's columns descend
};

struct task {
  std::int64_t num_rows;
  std::int64_t nnz;
  cuda::offsets_view indptr;
  const std::int32_t* indices;
  counts_found* found;
  std::uint32_t* vectors_8;   // of each window of 8 rows
  std::uint32_t* vectors_16;  // of each window of 16 rows
};

// Adds to `counts[window]` the lanes with `condition`. Called by whole warps; a lane without it may have any window.
__device__ __forceinline__ void count_lanes(std::uint32_t* counts, std::int64_t window, bool same_window,
                                            bool condition) {
  if (same_window) {
    const unsigned having = cuda::ballot(condition);
    if (threadIdx.x % 32 == 0 && having != 0) atomicAdd(counts + window, static_cast<std::uint32_t>(__popc(having)));
  } else if (condition) {
    atomicAdd(counts + window, 1u);
  }
}

__device__ __forceinline__ void add_warp(unsigned long long* to, unsigned long long sum) {
  const unsigned long long all = cuda::group_sum<32>(sum);
  if (threadIdx.x % 32 == 0 && all != 0) atomicAdd(to, all);
}

// At least five blocks: left to itself, the compiler takes 32 registers and spills.
__global__ void __launch_bounds__(threads_per_block, cuda::blocks_with_registers(threads_per_block, 5))
    count_vectors_kernel(const task work) {
  __shared__ std::int64_t block_rows[2];
  std::uint32_t single_8 = 0, single_16 = 0;
  const std::int64_t stride = std::int64_t{gridDim.x} * nonzeros_per_block;
  for (std::int64_t begin = std::int64_t{blockIdx.x} * nonzeros_per_block; begin < work.nnz; begin += stride) {
    const std::int64_t end = min(begin + nonzeros_per_block, work.nnz);
    __syncthreads();  // the rows of the piece before have been read
    if (threadIdx.x < 2) {
      block_rows[threadIdx.x] =
          row_of_nonzero<std::int64_t>(work.indptr, 0, work.num_rows - 1, threadIdx.x == 0 ? begin : end - 1);
    }
    __syncthreads();
    for (std::int64_t first = begin; first < end; first += threads_per_block) {
      const std::int64_t j = first + threadIdx.x;
      std::int64_t row = -1;
      vector_role role;
      if (j < end) {
        row = row_of_nonzero(work.indptr, block_rows[0], block_rows[1], j);
        if (j > work.indptr[row] && work.indices[j - 1] > work.indices[j]) work.found->unsorted = 1;
        role = role_of_nonzero(work.indptr, work.indices, work.num_rows, row, j);
      }
      single_8 += role.single_of_8;
      single_16 += role.single_of_16;
      const bool same = cuda::same_in_all_lanes(static_cast<unsigned long long>(row >> 3));
      count_lanes(work.vectors_8, row >> 3, same, role.first_of_8);
      count_lanes(work.vectors_16, row >> 4, same, role.first_of_16);
    }
  }
  add_warp(&work.found->single_8, single_8);
  add_warp(&work.found->single_16, single_16);
}

// A thread for each window of 16 rows.
__global__ void __launch_bounds__(threads_per_block) add_windows_kernel(const task work) {
  counts_found sum{};
  const std::int64_t windows = (work.num_rows + 15) / 16;
  const std::int64_t stride = std::int64_t{gridDim.x} * threads_per_block;
  for (std::int64_t window = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x; window < windows;
       window += stride) {
    const std::int64_t begin = work.indptr[16 * window];
    const std::int64_t middle = work.indptr[min(16 * window + 8, work.num_rows)];
    const std::int64_t end = work.indptr[min(16 * window + 16, work.num_rows)];
    const std::uint32_t upper = work.vectors_8[2 * window];
    const std::uint32_t lower = 16 * window + 8 < work.num_rows ? work.vectors_8[2 * window + 1] : 0;
    const std::uint32_t both = work.vectors_16[window];
    sum.vectors_8 += std::uint64_t{upper} + lower;
    sum.vectors_16 += both;
    if (is_dense_window(upper, middle - begin)) sum.dense_8 += middle - begin;
    if (is_dense_window(lower, end - middle)) sum.dense_8 += end - middle;
    if (is_dense_window(both, end - begin)) sum.dense_16 += end - begin;
  }
  add_warp(&work.found->vectors_8, sum.vectors_8);
  add_warp(&work.found->vectors_16, sum.vectors_16);
  add_warp(&work.found->dense_8, sum.dense_8);
  add_warp(&work.found->dense_16, sum.dense_16);
}

// Runs both kernels.
counts_found count(task work, cudaStream_t stream) {
  const std::int64_t windows_8 = ceil_divide(work.num_rows, 8), windows_16 = ceil_divide(work.num_rows, 16);
  const std::size_t bytes = sizeof(counts_found) + (windows_8 + windows_16) * sizeof(std::uint32_t);
  const cuda::pooled_memory memory(bytes, stream);
  work.found = memory.as<counts_found>();
  work.vectors_8 = reinterpret_cast<std::uint32_t*>(work.found + 1);
  work.vectors_16 = work.vectors_8 + windows_8;
  WARPLOOM_CUDA_CHECK(cudaMemsetAsync(memory.data(), 0, bytes, stream));
  const std::int64_t multiprocessors = cuda::device_attribute(cudaDevAttrMultiProcessorCount);
  const std::int64_t pieces = ceil_divide(work.nnz, nonzeros_per_block);
  const auto counting = static_cast<unsigned>(std::min(pieces, 32 * multiprocessors));
  count_vectors_kernel<<<counting, threads_per_block, 0, stream>>>(work);
  cuda::check_launch("count_vectors_kernel");
  const std::int64_t wanted = ceil_divide(windows_16, threads_per_block);
  const auto adding = static_cast<unsigned>(std::min(wanted, 4 * multiprocessors));
  add_windows_kernel<<<adding, threads_per_block, 0, stream>>>(work);
  cuda::check_launch("add_windows_kernel");
  return cuda::read_back(work.found, stream);
}

vector_counts signed_counts(unsigned long long vectors, unsigned long long single, unsigned long long dense) {
  return {static_cast<std::int64_t>(vectors), static_cast<std::int64_t>(single), static_cast<std::int64_t>(dense)};
}

}  // namespace

std::vector<double> compute_cuda_column_vector_features(const device_csr& matrix) {
  if (matrix.nnz() == 0) return column_vector_features({}, {}, 0);
  const device_csr_arrays arrays = arrays_of(matrix);
  const cudaStream_t stream = matrix.stream();
  task work{};
  work.num_rows = matrix.num_rows();
  work.nnz = matrix.nnz();
  work.indptr = {arrays.indptr, arrays.wide_indptr};
  work.indices = matrix.indices();
  counts_found found = count(work, stream);
  if (found.unsorted != 0) {
    const cuda::pooled_memory sorted = cuda::sort_columns(arrays, work.nnz, stream);
    work.indices = sorted.as<std::int32_t>();
    found = count(work, stream);
  }
  return column_vector_features(signed_counts(found.vectors_8, found.single_8, found.dense_8),
                                signed_counts(found.vectors_16, found.single_16, found.dense_16), work.nnz);
}

}  // namespace warploom
