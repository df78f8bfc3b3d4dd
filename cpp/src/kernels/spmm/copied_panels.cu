#include "kernels/spmm/copied_panels.hpp"
#include "kernels/spmm/padded_copy.hpp"

namespace warploom::cuda {
namespace {

constexpr int threads_per_block = 256;
constexpr int vectors_per_block = 4 * threads_per_block;

struct copied_rows {
  const char* from;
  std::int64_t from_pitch;  // bytes, as all of these
  const char* from_end;     // of the last row that is copied
  uint4* to;
  std::int64_t num_rows;      // that are copied
  std::int64_t rows_of_copy;  // zeros from there on
  std::int64_t row_bytes;
  unsigned vectors_per_row;  // of the copy, 16 bytes each
  unsigned rows_per_block;
};

// 16 bytes at an address that is a multiple of 16. They are read once, and are not to push the copy out of the L2.
__device__ __forceinline__ sixteen_bytes load_streaming(const char* from) {
  const uint4 loaded = __ldcs(reinterpret_cast<const uint4*>(from));
  return {{loaded.x, loaded.y, loaded.z, loaded.w}};
}

// Each thread writes 16 bytes, made from the one or two aligned vectors of B that hold them: a vector with a value of B
// in it does not reach over the memory that holds B, unless it reaches over the end of the last row. That is read
// value by value.
template <class Value>
__global__ void __launch_bounds__(threads_per_block) copy_kernel(const copied_rows rows) {
  constexpr int size = sizeof(Value);
  const std::int64_t first_row = std::int64_t{blockIdx.x} * rows.rows_per_block;
  const auto num_rows = static_cast<unsigned>(min(std::int64_t{rows.rows_per_block}, rows.rows_of_copy - first_row));
  uint4* const to = rows.to + first_row * rows.vectors_per_row;
  for (unsigned i = threadIdx.x; i < num_rows * rows.vectors_per_row; i += threads_per_block) {
    const unsigned row = i / rows.vectors_per_row;
    if (first_row + row >= rows.num_rows) {
      to[i] = {};
      continue;
    }
    const std::int64_t at = std::int64_t{16} * (i - row * rows.vectors_per_row);
    const char* const from = rows.from + (first_row + row) * rows.from_pitch + at;
    const std::int64_t left = rows.row_bytes - at;
    const int shift = static_cast<int>(reinterpret_cast<std::uintptr_t>(from) & 15);
    const char* const boundary = from - shift;
    const bool two = shift + min(left, std::int64_t{16}) > 16;
    sixteen_bytes result;
    if (boundary + (two ? 32 : 16) <= rows.from_end) {
      const sixteen_bytes low = load_streaming(boundary);
      sixteen_bytes high{};
      if (two) high = load_streaming(boundary + 16);
      result = realigned(low, high, shift, left);
    } else {
      result = {};
#pragma unroll
      for (int v = 0; v < 16 / size; ++v) {
        if (v * size >= left) continue;
        const std::uint32_t value = __ldg(reinterpret_cast<const Value*>(from) + v);
        result.words[v * size / 4] |= value << (v * size % 4 * 8);
      }
    }
    to[i] = {result.words[0], result.words[1], result.words[2], result.words[3]};
  }
}

std::int64_t vectors_for(std::int64_t columns, std::int64_t value_bytes) { return (columns * value_bytes + 15) / 16; }

}  // namespace

panel_copy::panel_copy(std::int64_t rows, std::int64_t columns, std::int64_t value_bytes, cudaStream_t stream)
    : rows_(rows),
      value_bytes_(value_bytes),
      stream_(stream),
      memory_(static_cast<std::size_t>(rows * vectors_for(columns, value_bytes) * 16), stream, memory_pool::products) {}

dense_view panel_copy::copy(const dense_view& B, std::int64_t first, std::int64_t columns) {
  const auto* const from = static_cast<const char*>(B.data) + first * value_bytes_;
  const std::int64_t from_pitch = B.leading_dimension * value_bytes_;
  const std::int64_t vectors = vectors_for(columns, value_bytes_);
  const std::int64_t rows_per_block = std::max<std::int64_t>(1, vectors_per_block / vectors);
  const copied_rows rows{from,
                         from_pitch,
                         from + (B.num_rows - 1) * from_pitch + columns * value_bytes_,
                         memory_.as<uint4>(),
                         B.num_rows,
                         rows_,
                         columns * value_bytes_,
                         static_cast<unsigned>(vectors),
                         static_cast<unsigned>(rows_per_block)};
  const auto blocks = static_cast<unsigned>((rows_ + rows_per_block - 1) / rows_per_block);
  if (value_bytes_ == 2) {
    copy_kernel<std::uint16_t><<<blocks, threads_per_block, 0, stream_>>>(rows);
  } else {
    copy_kernel<std::uint32_t><<<blocks, threads_per_block, 0, stream_>>>(rows);
  }
  check_launch("copy_kernel");
  return {memory_.data(), rows_, columns, vectors * 16 / value_bytes_};
}

}  // namespace warploom::cuda
