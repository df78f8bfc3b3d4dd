// A path of items cut into pieces of at most `size`, each of which begins where the one before ends, made on a GPU. A
// piece ends `size` items further on, or at most a half of that earlier, where a row begins.
//
// What happens at a position does not depend on where the piece began. So the path is divided into stretches; in each
// of them all positions that its first piece may begin with are followed at once to the next stretch. One thread then
// goes from stretch to stretch, and the pieces of all of them are written at once.
//
// Path is a struct with
//   std::int64_t num_items; int size;   up to 2048
//   __device__ void find_steps(std::int64_t first, int count, path_step* steps) const;
// which all threads of a thread block call: steps[i] for i < count shall be how far to go back from the position
// first + i so as to end a piece, or `cut_here`: not at all, although that cuts a row.
#pragma once

#include <cstdint>

#include "device/runtime.hpp"
#include "device/workspace.hpp"
#include "warploom/device.hpp"

namespace warploom::cuda {

using path_step = std::uint16_t;
inline constexpr path_step cut_here = 0xffff;
inline constexpr int path_threads = 512;
inline constexpr int largest_piece = 2048;

namespace detail {

inline constexpr int path_stretch = 16384;
inline constexpr int smallest_piece = 128;
inline constexpr int most_pieces = 2 * path_stretch / smallest_piece;  // of a stretch

// The end of the piece that begins at first + at, minus first.
template <class Path>
__device__ __forceinline__ int end_of_piece(const Path& path, std::int64_t first, int at, const path_step* steps,
                                            bool& cuts) {
  const int full = at + path.size;
  if (first + full >= path.num_items) return static_cast<int>(path.num_items - first);
  const path_step step = steps[full];
  if (step != cut_here) return full - step;
  cuts = true;
  return full;
}

// What happens in a stretch: where its last piece ends in the next one, and how many pieces there are.
struct path_exit {
  std::uint32_t bits;

  __device__ static path_exit make(int end, int pieces, bool cuts) {
    return {static_cast<std::uint32_t>(end) | static_cast<std::uint32_t>(pieces) << 12 | (cuts ? 1u << 31 : 0u)};
  }
  __device__ int end() const { return static_cast<int>(bits & 0xfff); }
  __device__ int pieces() const { return static_cast<int>(bits >> 12 & 0xfff); }
  __device__ bool cuts() const { return bits >> 31 != 0; }
};
static_assert(largest_piece <= 0xfff && most_pieces <= 0xfff);

// One thread block for each stretch. `exits` [stretch][position that its first piece begins with].
template <class Path>
__global__ void __launch_bounds__(path_threads)
    follow_path_kernel(const __grid_constant__ Path path, path_exit* __restrict__ exits) {
  __shared__ path_step steps[path_stretch + largest_piece];
  const std::int64_t first = std::int64_t{blockIdx.x} * path_stretch;
  path.find_steps(first, path_stretch + path.size, steps);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < path.size; i += path_threads) {
    int at = i;
    int pieces = 0;
    bool cuts = false;
    while (at < path_stretch && first + at < path.num_items) {
      at = end_of_piece(path, first, at, steps, cuts);
      ++pieces;
    }
    exits[std::int64_t{blockIdx.x} * path.size + i] = path_exit::make(max(0, at - path_stretch), pieces, cuts);
  }
}

// One thread. `entries`: where the first piece of each stretch begins and the number of that piece; then whether any
// row is cut, and the number of pieces.
inline __global__ void chain_stretches_kernel(const path_exit* __restrict__ exits, int num_stretches, int size,
                                              int2* __restrict__ entries) {
  int2 at{0, 0};
  bool cuts = false;
  for (int stretch = 0; stretch < num_stretches; ++stretch) {
    entries[stretch] = at;
    const path_exit exit = exits[std::int64_t{stretch} * size + at.x];
    at = {exit.end(), at.y + exit.pieces()};
    cuts = cuts || exit.cuts();
  }
  entries[num_stretches] = {cuts ? 1 : 0, at.y};
}

// One thread block for each stretch.
template <class Path>
__global__ void __launch_bounds__(path_threads)
    write_pieces_kernel(const __grid_constant__ Path path, const int2* __restrict__ entries,
                        std::int64_t* __restrict__ begins) {
  __shared__ path_step steps[path_stretch + largest_piece];
  __shared__ int begins_here[most_pieces];
  __shared__ int num_pieces;
  const std::int64_t first = std::int64_t{blockIdx.x} * path_stretch;
  path.find_steps(first, path_stretch + path.size, steps);
  __syncthreads();
  const int2 entry = entries[blockIdx.x];
  if (threadIdx.x == 0) {
    int pieces = 0;
    bool cuts = false;
    for (int at = entry.x; at < path_stretch && first + at < path.num_items;) {
      begins_here[pieces++] = at;
      at = end_of_piece(path, first, at, steps, cuts);
    }
    num_pieces = pieces;
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < num_pieces; i += path_threads) {
    begins[entry.y + i] = first + begins_here[i];
  }
  if (blockIdx.x + 1 == gridDim.x && threadIdx.x == 0) begins[entry.y + num_pieces] = path.num_items;
}

}  // namespace detail

// Where the pieces begin, and the last one ends.
struct path_pieces {
  device_array<std::int64_t> begins;  // pooled memory
  std::int64_t size = 0;
  bool cuts_rows = false;  // whether a piece ends within a row
};

// Synchronises the stream.
template <class Path>
path_pieces cut_path(const Path& path, cudaStream_t stream) {
  path_pieces result;
  if (path.num_items == 0) return result;
  const auto stretches = static_cast<unsigned>((path.num_items + detail::path_stretch - 1) / detail::path_stretch);
  const pooled_memory exits(std::size_t{stretches} * path.size * sizeof(detail::path_exit), stream);
  const pooled_memory entries((stretches + std::size_t{1}) * sizeof(int2), stream);
  detail::follow_path_kernel<<<stretches, path_threads, 0, stream>>>(path, exits.as<detail::path_exit>());
  check_launch("follow_path_kernel");
  detail::chain_stretches_kernel<<<1, 1, 0, stream>>>(exits.as<const detail::path_exit>(), static_cast<int>(stretches),
                                                      path.size, entries.as<int2>());
  check_launch("chain_stretches_kernel");
  int2 totals{};
  copy_to_host(&totals, entries.as<const int2>() + stretches, sizeof(totals), stream);
  result.size = totals.y;
  result.cuts_rows = totals.x != 0;
  result.begins = {static_cast<std::size_t>(result.size) + 1, pooled_allocator(stream)};
  detail::write_pieces_kernel<<<stretches, path_threads, 0, stream>>>(path, entries.as<const int2>(),
                                                                      result.begins.data());
  check_launch("write_pieces_kernel");
  return result;
}

// The last piece that does not begin past `position`.
__device__ inline int piece_at(const std::int64_t* __restrict__ begins, int num_pieces, std::int64_t position) {
  int low = 0;
  for (int high = num_pieces - 1; low < high;) {
    const int middle = low + (high - low + 1) / 2;
    if (__ldg(begins + middle) <= position) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace warploom::cuda
