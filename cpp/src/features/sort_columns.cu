#include <cub/device/device_segmented_sort.cuh>

#include "features/device_boundary.hpp"

namespace warploom::cuda {
namespace {

constexpr int threads_per_block = 256;
constexpr std::int64_t max_blocks = 1 << 14;

template <class From, class To>
__global__ void convert(const From* from, std::int64_t size, To* to) {
  const std::int64_t stride = std::int64_t{gridDim.x} * threads_per_block;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x; i < size; i += stride) {
    to[i] = static_cast<To>(from[i]);
  }
}

// The array as the one type that the sort is compiled for.
template <class To>
void convert(const void* from, bool wide, std::int64_t size, To* to, cudaStream_t stream) {
  if (size == 0) return;
  const std::int64_t wanted = (size + threads_per_block - 1) / threads_per_block;
  const auto blocks = static_cast<unsigned>(wanted < max_blocks ? wanted : max_blocks);
  if (wide) {
    convert<<<blocks, threads_per_block, 0, stream>>>(static_cast<const std::int64_t*>(from), size, to);
  } else {
    convert<<<blocks, threads_per_block, 0, stream>>>(static_cast<const std::int32_t*>(from), size, to);
  }
  check_launch("convert");
}

}  // namespace

pooled_memory sort_columns(const device_csr_arrays& matrix, std::int64_t nnz, cudaStream_t stream) {
  const pooled_memory offsets((matrix.num_rows + 1) * sizeof(std::int64_t), stream);
  const pooled_memory columns(nnz * sizeof(std::int32_t), stream);
  pooled_memory sorted(nnz * sizeof(std::int32_t), stream);
  convert(matrix.indptr, matrix.wide_indptr, matrix.num_rows + 1, offsets.as<std::int64_t>(), stream);
  convert(matrix.indices, matrix.wide_indices, nnz, columns.as<std::int32_t>(), stream);
  const auto sort = [&](void* memory, std::size_t& bytes) {
    WARPLOOM_CUDA_CHECK(cub::DeviceSegmentedSort::SortKeys(
        memory, bytes, columns.as<const std::int32_t>(), sorted.as<std::int32_t>(), nnz, matrix.num_rows,
        offsets.as<const std::int64_t>(), offsets.as<const std::int64_t>() + 1, stream));
  };
  std::size_t bytes = 0;
  sort(nullptr, bytes);
  const pooled_memory work(bytes > 0 ? bytes : 1, stream);
  sort(work.data(), bytes);
  return sorted;
}

}  // namespace warploom::cuda
