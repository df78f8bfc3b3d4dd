// The values of a matrix in GPU memory: replaced by their positions, and moved to where a plan stores them. Without
// types of CUDA, for the planner.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "warploom/device.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

inline constexpr int value_tile = 256;  // places

// For each place of an array of values the position of its value and one, or 0 if it holds none; in GPU memory. It is
// in `positions`, or in `tiles` where they repeat, or nowhere if the places are the positions.
struct device_value_map {
  value_array values;
  std::shared_ptr<void> positions{};  // [places]
  // Of every `value_tile` places the lowest position and one, and the number of a pattern: for each place of a tile
  // what is to be added to that, and one, or 0 if it holds no value.
  std::shared_ptr<void> tiles{};
  std::shared_ptr<void> patterns{};
  std::size_t bytes = 0;

  std::uint32_t* words() const { return static_cast<std::uint32_t*>(positions.get()); }
};

// The same pattern, with arrays that are not somebody else's.
std::shared_ptr<const device_csr> own_pattern(const device_csr& matrix, const device_allocator& allocate);
const void* values_of(const device_csr& matrix);

// The pattern of `matrix`, which is shared, with values of its own: position_word of every position, or what `data` (in
// GPU memory) holds. Enqueued on the stream, which becomes that of the result.
std::shared_ptr<const device_csr> with_positions(const device_csr& matrix, int round, CUstream_st* stream,
                                                 const device_allocator& allocate);
std::shared_ptr<const device_csr> with_values(const device_csr& matrix, const void* data, CUstream_st* stream,
                                              const device_allocator& allocate);

// Reads the positions that preparation has left in an array.
void read_positions(const device_value_map& map, value_type dtype, int round, CUstream_st* stream);

struct position_counts {
  std::uint64_t found = 0;     // different positions
  std::uint64_t in_order = 0;  // places that hold the value of their own position
  std::uint64_t outside = 0;   // places with a position that the matrix does not have
};

// Synchronises the stream.
position_counts count_positions(std::span<const device_value_map> maps, std::int64_t nnz, CUstream_st* stream);

// Replaces the positions by tiles where there are few patterns, as in what a stencil makes. An update then reads next
// to nothing but values, as a product does in formats whose indices take few bytes. Synchronises the stream.
void share_patterns(device_value_map& map, CUstream_st* stream, const device_allocator& allocate);

// Writes values to their places, and leaves all others as they are.
void move_values(const device_value_map& map, const void* data, value_type dtype, CUstream_st* stream);

}  // namespace warploom
