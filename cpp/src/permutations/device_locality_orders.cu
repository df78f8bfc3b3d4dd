#include <algorithm>
#include <utility>

#include "device/algorithms.hpp"
#include "device/device_csr.hpp"
#include "device/launch.cuh"
#include "device/runtime.hpp"
#include "device/workspace.hpp"
#include "kernels/device/warp.cuh"
#include "permutations/algorithms.hpp"
#include "permutations/device_locality_orders.hpp"
#include "permutations/device_node_order.cuh"
#include "permutations/device_permutation.hpp"
#include "permutations/locality_keys.hpp"
#include "warploom/error.hpp"

namespace warploom {
namespace {

constexpr int threads_per_block = 256;

// ---- degree

constexpr int columns_per_thread = 8;

// counts[c] becomes the number of entries of column c.
__global__ void __launch_bounds__(threads_per_block)
    count_columns_kernel(const std::int32_t* __restrict__ indices, std::int64_t nnz,
                         std::uint32_t* __restrict__ counts) {
  const std::int64_t first =
      std::int64_t{blockIdx.x} * (threads_per_block * columns_per_thread) + static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < columns_per_thread; ++i) {
    const std::int64_t j = first + i * threads_per_block;
    if (j < nnz) atomicAdd(counts + indices[j], 1u);
  }
}

// `counts` null: the degree is the length of the row alone.
__global__ void __launch_bounds__(threads_per_block)
    degree_classes_kernel(const std::int32_t* __restrict__ indptr, const std::uint32_t* __restrict__ counts,
                          unsigned num_rows, std::int64_t sum, std::uint32_t* __restrict__ classes,
                          std::int32_t* __restrict__ rows) {
  const unsigned row = blockIdx.x * threads_per_block + threadIdx.x;
  if (row >= num_rows) return;
  std::int64_t degree = indptr[row + 1] - indptr[row];
  if (counts != nullptr) degree += counts[row];
  classes[row] = static_cast<std::uint32_t>(degree_class(degree, num_rows, sum));
  rows[row] = static_cast<std::int32_t>(row);
}

// ---- minhash
//
// A group of as many threads as there are hash functions takes a piece of the nonzeros, whatever rows they belong to;
// each thread takes the minima of its function.

constexpr int nnz_per_group = 128;
constexpr int groups_per_block = threads_per_block / num_minhashes;
static_assert(nnz_per_group % num_minhashes == 0 && 32 % num_minhashes == 0);

// The row r in [first, num_rows) with indptr[r] <= j < indptr[r + 1].
__device__ unsigned row_of(const std::int32_t* __restrict__ indptr, unsigned first, unsigned num_rows, unsigned j) {
  unsigned end = num_rows;  // indptr[first] <= j < indptr[end]
  while (end - first > 1) {
    const unsigned middle = first + (end - first) / 2;
    if (static_cast<unsigned>(indptr[middle]) <= j) {
      first = middle;
    } else {
      end = middle;
    }
  }
  return first;
}

// Signatures of rows side by side, which are the greatest possible ones before.
__global__ void __launch_bounds__(threads_per_block)
    signatures_kernel(const std::int32_t* __restrict__ indptr, const std::int32_t* __restrict__ indices,
                      unsigned num_rows, unsigned nnz, std::uint32_t* __restrict__ signatures) {
  const unsigned h = threadIdx.x % num_minhashes;
  const unsigned group = blockIdx.x * groups_per_block + threadIdx.x / num_minhashes;
  const std::int64_t begin = std::int64_t{group} * nnz_per_group;
  if (begin >= nnz) return;
  const std::uint32_t salt = minhash_salt(static_cast<int>(h));
  auto j = static_cast<unsigned>(begin);
  const unsigned end = min(j + nnz_per_group, nnz);
  unsigned row = row_of(indptr, 0, num_rows, j);
  while (true) {
    const auto row_end = static_cast<unsigned>(indptr[row + 1]);
    const unsigned stop = min(row_end, end);
    std::uint32_t least = ~std::uint32_t{0};
#pragma unroll 4
    for (; j < stop; ++j) least = min(least, mixed(static_cast<std::uint32_t>(indices[j]) ^ salt));
    atomicMin(signatures + std::size_t{row} * num_minhashes + h, least);
    if (j == end) return;
    ++row;
    if (static_cast<unsigned>(indptr[row + 1]) <= j) row = row_of(indptr, row + 1, num_rows, j);  // empty rows
  }
}

// Two neighbouring hashes of the signatures of the rows.
__global__ void __launch_bounds__(threads_per_block)
    signature_keys_kernel(const uint2* __restrict__ signatures, int pair, const std::int32_t* __restrict__ rows,
                          unsigned num_rows, std::uint64_t* __restrict__ keys) {
  const unsigned i = blockIdx.x * threads_per_block + threadIdx.x;
  if (i >= num_rows) return;
  const uint2 hashes = signatures[std::size_t{static_cast<unsigned>(rows[i])} * (num_minhashes / 2) + pair];
  keys[i] = std::uint64_t{hashes.x} << 32 | hashes.y;
}

void sort_by_minhashes(const device_csr& matrix, std::int32_t* perm) {
  const auto m = static_cast<unsigned>(matrix.num_rows());
  const auto nnz = static_cast<unsigned>(matrix.nnz());
  const cudaStream_t stream = matrix.stream();
  const std::size_t size = std::size_t{m} * num_minhashes * sizeof(std::uint32_t);
  const cuda::pooled_memory signatures(size, stream), keys(m * sizeof(std::uint64_t), stream),
      sorted_keys(m * sizeof(std::uint64_t), stream), rows(m * sizeof(std::int32_t), stream);
  WARPLOOM_CUDA_CHECK(cudaMemsetAsync(signatures.data(), 0xff, size, stream));
  if (nnz > 0) {
    const std::int64_t groups = (std::int64_t{nnz} + nnz_per_group - 1) / nnz_per_group;
    signatures_kernel<<<cuda::blocks_for(groups, groups_per_block), threads_per_block, 0, stream>>>(
        matrix.indptr32(), matrix.indices(), m, nnz, signatures.as<std::uint32_t>());
    cuda::check_launch("signatures_kernel");
  }
  // The last hashes first, as the sort is stable; after an even number of times the rows are where they started.
  static_assert(num_minhashes / 2 % 2 == 0);
  std::int32_t *from = perm, *to = rows.as<std::int32_t>();
  cuda::launch("count_up_kernel", node_order::count_up_kernel, m, stream, m, from);
  for (int pair = num_minhashes / 2 - 1; pair >= 0; --pair) {
    signature_keys_kernel<<<cuda::blocks_for(m), threads_per_block, 0, stream>>>(signatures.as<const uint2>(), pair,
                                                                                 from, m, keys.as<std::uint64_t>());
    cuda::check_launch("signature_keys_kernel");
    cuda::sort_pairs(keys.as<const std::uint64_t>(), sorted_keys.as<std::uint64_t>(), from, to, m, 64, stream);
    std::swap(from, to);
  }
}

}  // namespace

device_permutation degree_permutation_on_gpu(const device_csr& matrix, const geometry&,
                                             const device_allocator& allocate) {
  std::shared_ptr<std::int32_t> perm = make_permutation(matrix, allocate);
  const std::int64_t m = matrix.num_rows(), nnz = matrix.nnz();
  if (m == 0) return perm;
  const cudaStream_t stream = matrix.stream();
  const bool square = m == matrix.num_cols();
  const std::size_t size = m * sizeof(std::uint32_t);
  const cuda::pooled_memory classes(size, stream), sorted_classes(size, stream), rows(size, stream);
  auto* const counts = sorted_classes.as<std::uint32_t>();  // until they are sorted
  if (square) {
    WARPLOOM_CUDA_CHECK(cudaMemsetAsync(counts, 0, size, stream));
    if (nnz > 0) {
      count_columns_kernel<<<cuda::blocks_for(nnz, threads_per_block * columns_per_thread), threads_per_block, 0,
                             stream>>>(matrix.indices(), nnz, counts);
      cuda::check_launch("count_columns_kernel");
    }
  }
  degree_classes_kernel<<<cuda::blocks_for(m), threads_per_block, 0, stream>>>(
      matrix.indptr32(), square ? counts : nullptr, static_cast<unsigned>(m), square ? 2 * nnz : nnz,
      classes.as<std::uint32_t>(), rows.as<std::int32_t>());
  cuda::check_launch("degree_classes_kernel");
  cuda::sort_pairs(classes.as<const std::uint32_t>(), sorted_classes.as<std::uint32_t>(), rows.as<const std::int32_t>(),
                   perm.get(), m, cuda::bits_for(num_degree_classes - 1), stream);
  return perm;
}

device_permutation minhash_permutation_on_gpu(const device_csr& matrix, const geometry&,
                                              const device_allocator& allocate) {
  return permutation_unless_given_up(matrix, allocate, [&](std::int32_t* perm) {
    sort_by_minhashes(matrix, perm);
    return true;
  });
}

}  // namespace warploom
