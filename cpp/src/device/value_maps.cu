#include <algorithm>

#include "device/device_csr.hpp"
#include "device/value_maps.hpp"
#include "device/workspace.hpp"
#include "planner/positions.hpp"

namespace warploom {
namespace {

constexpr int threads_per_block = 256;
constexpr int places_per_thread = 4;

unsigned blocks_for(std::int64_t items, int per_block = threads_per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

template <class Word>
__global__ void __launch_bounds__(threads_per_block)
    write_positions_kernel(std::int64_t nnz, int round, Word* __restrict__ data) {
  const std::int64_t j = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (j < nnz) data[j] = position_word<Word>(static_cast<std::uint32_t>(j), round);
}

template <class Word>
__global__ void __launch_bounds__(threads_per_block)
    read_positions_kernel(const Word* __restrict__ values, std::int64_t places, int round,
                          std::uint32_t* __restrict__ positions) {
  const std::int64_t i = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  if (i < places) positions[i] = read_position<Word>(values[i], round, round == 0 ? 0 : positions[i]);
}

// `seen` has a bit for each position.
__global__ void __launch_bounds__(threads_per_block)
    count_positions_kernel(const std::uint32_t* __restrict__ positions, std::int64_t places, std::int64_t nnz,
                           std::uint32_t* __restrict__ seen, unsigned long long* __restrict__ counts) {
  const std::int64_t i = std::int64_t{blockIdx.x} * threads_per_block + threadIdx.x;
  const std::uint32_t position = i < places ? positions[i] : 0;
  const bool inside = position != 0 && position <= nnz;
  bool is_first = false;
  if (inside) {
    const std::uint32_t bit = 1u << (position - 1) % 32;
    is_first = (atomicOr(seen + (position - 1) / 32, bit) & bit) == 0;
  }
  const int found = __syncthreads_count(is_first);
  const int in_order = __syncthreads_count(inside && position == i + 1);
  const int outside = __syncthreads_count(position != 0 && !inside);
  if (threadIdx.x != 0) return;
  if (found > 0) atomicAdd(counts, static_cast<unsigned long long>(found));
  if (in_order > 0) atomicAdd(counts + 1, static_cast<unsigned long long>(in_order));
  if (outside > 0) atomicAdd(counts + 2, static_cast<unsigned long long>(outside));
}

template <class Word>
__global__ void __launch_bounds__(threads_per_block)
    move_values_kernel(const std::uint32_t* __restrict__ positions, std::int64_t places, const Word* __restrict__ from,
                       Word* __restrict__ to) {
  const std::int64_t first = std::int64_t{blockIdx.x} * threads_per_block * places_per_thread + threadIdx.x;
  std::uint32_t position[places_per_thread];
  Word value[places_per_thread];
#pragma unroll
  for (int k = 0; k < places_per_thread; ++k) {
    const std::int64_t i = first + k * threads_per_block;
    position[k] = i < places ? __ldcs(positions + i) : 0;
  }
#pragma unroll
  for (int k = 0; k < places_per_thread; ++k) {
    if (position[k] != 0) value[k] = __ldg(from + position[k] - 1);
  }
#pragma unroll
  for (int k = 0; k < places_per_thread; ++k) {
    if (position[k] != 0) to[first + k * threads_per_block] = value[k];
  }
}

void copy_within_device(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  if (bytes > 0) WARPLOOM_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
}

}  // namespace

std::shared_ptr<const device_csr> own_pattern(const device_csr& matrix, const device_allocator& allocate) {
  return matrix.kept(allocate);
}

const void* values_of(const device_csr& matrix) { return matrix.data(); }

std::shared_ptr<const device_csr> with_positions(const device_csr& matrix, int round, CUstream_st* stream,
                                                 const device_allocator& allocate) {
  auto made = std::make_shared<device_csr>(matrix, allocate);
  made->order_on(stream);
  if (matrix.nnz() > 0) {
    cuda::dispatch_bits(matrix.dtype(), [&](auto bits) {
      using word = decltype(bits);
      write_positions_kernel<<<blocks_for(matrix.nnz()), threads_per_block, 0, stream>>>(
          matrix.nnz(), round, reinterpret_cast<word*>(made->data_to_fill()));
    });
    cuda::check_launch("write_positions_kernel");
  }
  return made;
}

std::shared_ptr<const device_csr> with_values(const device_csr& matrix, const void* data, CUstream_st* stream,
                                              const device_allocator& allocate) {
  auto made = std::make_shared<device_csr>(matrix, allocate);
  made->order_on(stream);
  copy_within_device(made->data_to_fill(), data, matrix.nnz() * size_of(matrix.dtype()), stream);
  return made;
}

void read_positions(const device_value_map& map, value_type dtype, int round, CUstream_st* stream) {
  if (map.values.places == 0) return;
  cuda::dispatch_bits(dtype, [&](auto bits) {
    using word = decltype(bits);
    read_positions_kernel<<<blocks_for(map.values.places), threads_per_block, 0, stream>>>(
        static_cast<const word*>(map.values.data), map.values.places, round, map.words());
  });
  cuda::check_launch("read_positions_kernel");
}

position_counts count_positions(std::span<const device_value_map> maps, std::int64_t nnz, CUstream_st* stream) {
  static_assert(sizeof(position_counts) == 3 * sizeof(unsigned long long));
  const std::size_t seen_bytes = (nnz + 31) / 32 * sizeof(std::uint32_t);
  const cuda::pooled_memory seen(std::max<std::size_t>(seen_bytes, 1), stream);
  const cuda::pooled_memory counts(sizeof(position_counts), stream);
  fill_device(seen.data(), 0, seen_bytes, stream);
  fill_device(counts.data(), 0, sizeof(position_counts), stream);
  for (const device_value_map& map : maps) {
    if (map.values.places == 0) continue;
    count_positions_kernel<<<blocks_for(map.values.places), threads_per_block, 0, stream>>>(
        map.words(), map.values.places, nnz, seen.as<std::uint32_t>(), counts.as<unsigned long long>());
    cuda::check_launch("count_positions_kernel");
  }
  return cuda::read_back(counts.as<const position_counts>(), stream);
}

void move_values(const device_value_map& map, const void* data, value_type dtype, CUstream_st* stream) {
  const auto [to, places] = map.values;
  if (map.positions == nullptr) return copy_within_device(to, data, places * size_of(dtype), stream);
  if (places == 0) return;
  cuda::dispatch_bits(dtype, [&](auto bits) {
    using word = decltype(bits);
    move_values_kernel<<<blocks_for(places, threads_per_block * places_per_thread), threads_per_block, 0, stream>>>(
        map.words(), places, static_cast<const word*>(data), static_cast<word*>(to));
  });
  cuda::check_launch("move_values_kernel");
}

}  // namespace warploom
