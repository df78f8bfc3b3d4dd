#include <algorithm>
#include <limits>

#include "device/algorithms.hpp"
#include "device/device_csr.hpp"
#include "device/value_maps.hpp"
#include "device/workspace.hpp"
#include "planner/positions.hpp"

namespace warploom {
namespace {

constexpr int threads_per_block = 256;
constexpr int places_per_thread = 4;

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

// ---- Patterns

static_assert(threads_per_block == value_tile);

// In pattern `position` for the lowest position of the tile.
__device__ __forceinline__ std::uint32_t offset_from(std::uint32_t lowest, std::uint32_t position) {
  return position == 0 ? 0 : position - lowest + 1;
}

__device__ __forceinline__ std::uint32_t position_at(const std::uint32_t* positions, std::int64_t places,
                                                     std::int64_t i) {
  return i < places ? positions[i] : 0;
}

// One thread block for each tile: its lowest position, and a hash of the rest.
__global__ void __launch_bounds__(value_tile)
    hash_tiles_kernel(const std::uint32_t* __restrict__ positions, std::int64_t places,
                      std::uint32_t* __restrict__ lowest_of, std::uint64_t* __restrict__ hashes,
                      std::int32_t* __restrict__ tile_ids) {
  __shared__ std::uint32_t lowest;
  __shared__ unsigned long long sum;
  if (threadIdx.x == 0) {
    lowest = ~0u;
    sum = 0;
  }
  __syncthreads();
  const std::uint32_t position = position_at(positions, places, std::int64_t{blockIdx.x} * value_tile + threadIdx.x);
  if (position != 0) atomicMin(&lowest, position);
  __syncthreads();
  std::uint64_t mixed = std::uint64_t{offset_from(lowest, position)} << 8 | threadIdx.x;
  mixed = (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9ull;
  mixed = (mixed ^ mixed >> 32) * 0x94d049bb133111ebull;
  atomicAdd(&sum, static_cast<unsigned long long>(mixed ^ mixed >> 31));
  __syncthreads();
  if (threadIdx.x != 0) return;
  lowest_of[blockIdx.x] = lowest;
  hashes[blockIdx.x] = sum;
  tile_ids[blockIdx.x] = static_cast<std::int32_t>(blockIdx.x);
}

// `firsts` has one element more than there are tiles, which becomes 0.
__global__ void flag_firsts_kernel(const std::uint64_t* __restrict__ sorted, unsigned tiles,
                                   std::int32_t* __restrict__ firsts) {
  const unsigned i = blockIdx.x * threads_per_block + threadIdx.x;
  if (i <= tiles) firsts[i] = i < tiles && (i == 0 || sorted[i] != sorted[i - 1]) ? 1 : 0;
}

// `before` is the exclusive scan of what flag_firsts_kernel wrote.
__global__ void number_tiles_kernel(const std::int32_t* __restrict__ tile_ids, const std::int32_t* __restrict__ before,
                                    const std::uint32_t* __restrict__ lowest_of, unsigned num_tiles,
                                    uint2* __restrict__ tiles, std::int32_t* __restrict__ examples) {
  const unsigned i = blockIdx.x * threads_per_block + threadIdx.x;
  if (i >= num_tiles) return;
  const std::int32_t tile = tile_ids[i];
  const std::int32_t pattern = before[i + 1] - 1;
  tiles[tile] = make_uint2(lowest_of[tile], static_cast<unsigned>(pattern));
  if (before[i] == pattern) examples[pattern] = tile;
}

// One thread block for each pattern.
__global__ void __launch_bounds__(value_tile)
    write_patterns_kernel(const std::uint32_t* __restrict__ positions, std::int64_t places,
                          const uint2* __restrict__ tiles, const std::int32_t* __restrict__ examples,
                          std::uint32_t* __restrict__ patterns) {
  const std::int32_t tile = examples[blockIdx.x];
  const std::uint32_t position = position_at(positions, places, std::int64_t{tile} * value_tile + threadIdx.x);
  patterns[std::int64_t{blockIdx.x} * value_tile + threadIdx.x] = offset_from(tiles[tile].x, position);
}

// Hashes may be equal by chance. `differ` becomes 1 if a tile is not what its pattern says.
__global__ void __launch_bounds__(value_tile)
    compare_tiles_kernel(const std::uint32_t* __restrict__ positions, std::int64_t places,
                         const uint2* __restrict__ tiles, const std::uint32_t* __restrict__ patterns,
                         std::int32_t* __restrict__ differ) {
  const uint2 tile = tiles[blockIdx.x];
  const std::uint32_t position = position_at(positions, places, std::int64_t{blockIdx.x} * value_tile + threadIdx.x);
  if (patterns[std::int64_t{tile.y} * value_tile + threadIdx.x] != offset_from(tile.x, position)) *differ = 1;
}

template <class Word>
__global__ void __launch_bounds__(value_tile)
    move_tiles_kernel(const uint2* __restrict__ tiles, const std::uint32_t* __restrict__ patterns, unsigned num_tiles,
                      const Word* __restrict__ from, Word* __restrict__ to) {
  const std::int64_t first = std::int64_t{blockIdx.x} * places_per_thread;
  std::uint32_t lowest[places_per_thread];
  std::uint32_t offset[places_per_thread];
  Word value[places_per_thread];
#pragma unroll
  for (int k = 0; k < places_per_thread; ++k) {
    offset[k] = 0;
    if (first + k >= num_tiles) continue;
    const uint2 tile = __ldg(tiles + first + k);
    lowest[k] = tile.x;
    offset[k] = __ldg(patterns + std::int64_t{tile.y} * value_tile + threadIdx.x);
  }
#pragma unroll
  for (int k = 0; k < places_per_thread; ++k) {
    if (offset[k] != 0) value[k] = __ldg(from + (std::int64_t{lowest[k]} + offset[k] - 2));  // both count from 1
  }
#pragma unroll
  for (int k = 0; k < places_per_thread; ++k) {
    if (offset[k] != 0) to[(first + k) * value_tile + threadIdx.x] = value[k];
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
      write_positions_kernel<<<cuda::blocks_for(matrix.nnz()), threads_per_block, 0, stream>>>(
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
    read_positions_kernel<<<cuda::blocks_for(map.values.places), threads_per_block, 0, stream>>>(
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
    count_positions_kernel<<<cuda::blocks_for(map.values.places), threads_per_block, 0, stream>>>(
        map.words(), map.values.places, nnz, seen.as<std::uint32_t>(), counts.as<unsigned long long>());
    cuda::check_launch("count_positions_kernel");
  }
  return cuda::read_back(counts.as<const position_counts>(), stream);
}

void share_patterns(device_value_map& map, CUstream_st* stream, const device_allocator& allocate) {
  constexpr std::int64_t tiles_per_pattern = 8;  // at least
  const std::int64_t places = map.values.places;
  const std::int64_t count = (places + value_tile - 1) / value_tile;
  if (map.positions == nullptr || count < tiles_per_pattern || count > std::numeric_limits<std::int32_t>::max() / 2) {
    return;
  }
  const auto tiles = static_cast<unsigned>(count);
  const cuda::pooled_memory lowest(tiles * sizeof(std::uint32_t), stream);
  const cuda::pooled_memory ids(tiles * sizeof(std::int32_t), stream);
  const cuda::pooled_memory before((tiles + std::size_t{1}) * sizeof(std::int32_t), stream);
  {
    const cuda::pooled_memory hashes(tiles * sizeof(std::uint64_t), stream);
    const cuda::pooled_memory sorted(tiles * sizeof(std::uint64_t), stream);
    const cuda::pooled_memory in_order(tiles * sizeof(std::int32_t), stream);
    hash_tiles_kernel<<<tiles, value_tile, 0, stream>>>(map.words(), places, lowest.as<std::uint32_t>(),
                                                        hashes.as<std::uint64_t>(), in_order.as<std::int32_t>());
    cuda::check_launch("hash_tiles_kernel");
    cuda::sort_pairs(hashes.as<const std::uint64_t>(), sorted.as<std::uint64_t>(), in_order.as<const std::int32_t>(),
                     ids.as<std::int32_t>(), count, 64, stream);
    flag_firsts_kernel<<<cuda::blocks_for(count + 1), threads_per_block, 0, stream>>>(sorted.as<const std::uint64_t>(),
                                                                                      tiles, before.as<std::int32_t>());
    cuda::check_launch("flag_firsts_kernel");
  }
  cuda::exclusive_scan(before.as<const std::int32_t>(), before.as<std::int32_t>(), count + 1, stream);
  const std::int32_t patterns = cuda::read_back(before.as<const std::int32_t>() + tiles, stream);
  if (patterns > count / tiles_per_pattern) return;

  device_value_map shared{map.values};
  const std::size_t tile_bytes = tiles * sizeof(uint2);
  const std::size_t pattern_bytes = std::size_t{value_tile} * patterns * sizeof(std::uint32_t);
  shared.tiles = allocate(tile_bytes);
  shared.patterns = allocate(pattern_bytes);
  shared.bytes = tile_bytes + pattern_bytes;
  auto* const to_tiles = static_cast<uint2*>(shared.tiles.get());
  auto* const to_patterns = static_cast<std::uint32_t*>(shared.patterns.get());
  const cuda::pooled_memory examples(patterns * sizeof(std::int32_t), stream);
  const cuda::pooled_memory differ(sizeof(std::int32_t), stream);
  fill_device(differ.data(), 0, sizeof(std::int32_t), stream);
  number_tiles_kernel<<<cuda::blocks_for(count), threads_per_block, 0, stream>>>(
      ids.as<const std::int32_t>(), before.as<const std::int32_t>(), lowest.as<const std::uint32_t>(), tiles, to_tiles,
      examples.as<std::int32_t>());
  cuda::check_launch("number_tiles_kernel");
  write_patterns_kernel<<<static_cast<unsigned>(patterns), value_tile, 0, stream>>>(
      map.words(), places, to_tiles, examples.as<const std::int32_t>(), to_patterns);
  cuda::check_launch("write_patterns_kernel");
  compare_tiles_kernel<<<tiles, value_tile, 0, stream>>>(map.words(), places, to_tiles, to_patterns,
                                                         differ.as<std::int32_t>());
  cuda::check_launch("compare_tiles_kernel");
  if (cuda::read_back(differ.as<const std::int32_t>(), stream) == 0) map = std::move(shared);
}

void move_values(const device_value_map& map, const void* data, value_type dtype, CUstream_st* stream) {
  void* const to = map.values.data;
  const std::int64_t places = map.values.places;
  if (places == 0) return;
  if (map.tiles != nullptr) {
    const std::int64_t tiles = (places + value_tile - 1) / value_tile;
    cuda::dispatch_bits(dtype, [&](auto bits) {
      using word = decltype(bits);
      move_tiles_kernel<<<cuda::blocks_for(tiles, places_per_thread), value_tile, 0, stream>>>(
          static_cast<const uint2*>(map.tiles.get()), static_cast<const std::uint32_t*>(map.patterns.get()),
          static_cast<unsigned>(tiles), static_cast<const word*>(data), static_cast<word*>(to));
    });
    return cuda::check_launch("move_tiles_kernel");
  }
  if (map.positions == nullptr) return copy_within_device(to, data, places * size_of(dtype), stream);
  cuda::dispatch_bits(dtype, [&](auto bits) {
    using word = decltype(bits);
    move_values_kernel<<<cuda::blocks_for(places, threads_per_block * places_per_thread), threads_per_block, 0,
                         stream>>>(map.words(), places, static_cast<const word*>(data), static_cast<word*>(to));
  });
  cuda::check_launch("move_values_kernel");
}

}  // namespace warploom
