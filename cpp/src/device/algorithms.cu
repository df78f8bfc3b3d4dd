#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <bit>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_run_length_encode.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>
#include <cuda/std/bit>

#include "device/algorithms.hpp"
#include "device/workspace.hpp"

namespace warploom::cuda {
namespace {

// CUB says first how much memory it needs, and then works.
template <class Algorithm>
void with_workspace(cudaStream_t stream, Algorithm algorithm) {
  std::size_t bytes = 0;
  WARPLOOM_CUDA_CHECK(algorithm(nullptr, bytes));
  const pooled_memory memory(bytes > 0 ? bytes : 1, stream);
  WARPLOOM_CUDA_CHECK(algorithm(memory.data(), bytes));
}

template <class From, class To, class Add = ::cuda::std::plus<>>
void scan(const From* from, To* to, std::int64_t size, cudaStream_t stream, To first = To{}, Add add = {}) {
  if (size == 0) return;
  with_workspace(stream, [&](void* memory, std::size_t& bytes) {
    return cub::DeviceScan::ExclusiveScan(memory, bytes, from, to, add, first, size, stream);
  });
}

struct add_four {
  __host__ __device__ int4 operator()(const int4& a, const int4& b) const {
    return make_int4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
  }
};

template <class Key, class Value>
void sort(const Key* keys, Key* sorted_keys, const Value* values, Value* sorted_values, std::int64_t size, int bits,
          cudaStream_t stream) {
  if (size == 0) return;
  with_workspace(stream, [&](void* memory, std::size_t& bytes) {
    return cub::DeviceRadixSort::SortPairs(memory, bytes, keys, sorted_keys, values, sorted_values, size, 0, bits,
                                           stream);
  });
}

struct count_bits {
  __host__ __device__ std::int32_t operator()(std::uint32_t mask) const { return ::cuda::std::popcount(mask); }
};

}  // namespace

void exclusive_scan(const std::int32_t* from, std::int32_t* to, std::int64_t size, cudaStream_t stream) {
  scan(from, to, size, stream);
}

void exclusive_scan(const std::int64_t* from, std::int64_t* to, std::int64_t size, cudaStream_t stream) {
  scan(from, to, size, stream);
}

void exclusive_scan(const std::int32_t* from, std::int64_t* to, std::int64_t size, cudaStream_t stream) {
  scan(from, to, size, stream);
}

void exclusive_scan_of_bits(const std::uint32_t* masks, std::int32_t* to, std::int64_t size, cudaStream_t stream) {
  if (size == 0) return;
  with_workspace(stream, [&](void* memory, std::size_t& bytes) {
    return cub::DeviceScan::ExclusiveSum(memory, bytes, thrust::make_transform_iterator(masks, count_bits{}), to, size,
                                         stream);
  });
}

void exclusive_scan(const int4* from, int4* to, std::int64_t size, cudaStream_t stream) {
  scan(from, to, size, stream, int4{0, 0, 0, 0}, add_four{});
}

void exclusive_scan(const std::uint32_t* from, std::uint32_t* to, std::int64_t size, std::uint32_t first,
                    cudaStream_t stream) {
  scan(from, to, size, stream, first);
}

void sort_pairs(const std::uint32_t* keys, std::uint32_t* sorted_keys, const std::int32_t* values,
                std::int32_t* sorted_values, std::int64_t size, int bits, cudaStream_t stream) {
  sort(keys, sorted_keys, values, sorted_values, size, bits, stream);
}

void sort_pairs(const std::uint64_t* keys, std::uint64_t* sorted_keys, const std::int32_t* values,
                std::int32_t* sorted_values, std::int64_t size, int bits, cudaStream_t stream) {
  sort(keys, sorted_keys, values, sorted_values, size, bits, stream);
}

void sort_pairs(const std::uint32_t* keys, std::uint32_t* sorted_keys, const std::uint64_t* values,
                std::uint64_t* sorted_values, std::int64_t size, int bits, cudaStream_t stream) {
  sort(keys, sorted_keys, values, sorted_values, size, bits, stream);
}

void sort_pairs_descending(const std::uint32_t* keys, std::uint32_t* sorted_keys, const std::int32_t* values,
                           std::int32_t* sorted_values, std::int64_t size, int bits, cudaStream_t stream) {
  if (size == 0) return;
  with_workspace(stream, [&](void* memory, std::size_t& bytes) {
    return cub::DeviceRadixSort::SortPairsDescending(memory, bytes, keys, sorted_keys, values, sorted_values, size, 0,
                                                     bits, stream);
  });
}

void sort_keys(const std::uint64_t* keys, std::uint64_t* sorted_keys, std::int64_t size, int bits,
               cudaStream_t stream) {
  if (size == 0) return;
  with_workspace(stream, [&](void* memory, std::size_t& bytes) {
    return cub::DeviceRadixSort::SortKeys(memory, bytes, keys, sorted_keys, size, 0, bits, stream);
  });
}

void sort_descending(const std::uint32_t* keys, std::uint32_t* sorted_keys, std::int64_t size, int bits,
                     cudaStream_t stream) {
  if (size == 0) return;
  with_workspace(stream, [&](void* memory, std::size_t& bytes) {
    return cub::DeviceRadixSort::SortKeysDescending(memory, bytes, keys, sorted_keys, size, 0, bits, stream);
  });
}

void count_runs(const std::uint64_t* from, std::uint64_t* to, std::int32_t* lengths, std::int32_t* count,
                std::int64_t size, cudaStream_t stream) {
  with_workspace(stream, [&](void* memory, std::size_t& bytes) {
    return cub::DeviceRunLengthEncode::Encode(memory, bytes, from, to, lengths, count, size, stream);
  });
}

void sum_runs(const std::uint64_t* from, const std::int32_t* values, std::uint64_t* to, std::int32_t* sums,
              std::int32_t* count, std::int64_t size, cudaStream_t stream) {
  with_workspace(stream, [&](void* memory, std::size_t& bytes) {
    return cub::DeviceReduce::ReduceByKey(memory, bytes, from, to, values, sums, count, ::cuda::std::plus<>{}, size,
                                          stream);
  });
}

void select_positions(const std::uint8_t* flags, std::int32_t* positions, std::int32_t* count, std::int64_t size,
                      cudaStream_t stream) {
  with_workspace(stream, [&](void* memory, std::size_t& bytes) {
    return cub::DeviceSelect::Flagged(memory, bytes, thrust::counting_iterator<std::int32_t>(0), flags, positions,
                                      count, size, stream);
  });
}

int bits_for(std::uint64_t largest) { return std::max(1, static_cast<int>(std::bit_width(largest))); }

}  // namespace warploom::cuda
