// Slices (slices.hpp) in GPU memory, as the kernels of SELL-C-sigma, ELL and HYB read them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device_csr.hpp"
#include "device/runtime.hpp"
#include "kernels/sell/slices.hpp"

namespace warploom::cuda {

struct device_slices {
  std::int64_t num_rows = 0;
  value_type dtype = value_type::float32;
  std::int64_t height = 32;
  std::int64_t head = 0;                 // columns
  device_array<std::uint32_t> tail_ptr;  // [number of slices + 1] places; empty: no slice has a tail
  device_array<std::int32_t> row_ids;    // empty: the rows in their order
  device_array<std::int32_t> indices;
  device_array<std::byte> data;

  std::int64_t num_slices() const { return (num_rows + height - 1) / height; }
  std::int64_t places() const { return static_cast<std::int64_t>(indices.size()); }
  value_array all_values() const { return {data.data(), places()}; }
  std::size_t bytes() const { return tail_ptr.bytes() + row_ids.bytes() + indices.bytes() + data.bytes(); }
  template <class Value>
  const Value* values() const {
    return reinterpret_cast<const Value*>(data.data());
  }
};

// Memory for the places. Throws error_kind::index_overflow if 32 bits do not number them.
void allocate_places(device_slices& slices, std::int64_t places, const device_allocator& allocate);

// Writes all places: the first entries of every row as far as its slice has columns, and padding. Enqueued on the
// stream of the matrix, which has 32-bit offsets.
void fill_slices(const device_csr& matrix, const device_slices& slices);

// Slices that are all `width` columns wide, of rows in their order.
device_slices equal_slices(const device_csr& matrix, std::int64_t width, std::int64_t height,
                           const device_allocator& allocate);

host_slices download(const device_slices& slices, cudaStream_t stream);

// An array in host memory, once the stream has come that far.
template <class T>
std::vector<T> download(const device_array<T>& array, cudaStream_t stream) {
  std::vector<T> host(array.size());
  if (!host.empty()) copy_to_host(host.data(), array.data(), array.bytes(), stream);
  return host;
}

}  // namespace warploom::cuda
