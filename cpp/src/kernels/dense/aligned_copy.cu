#include <algorithm>

#include "device/runtime.hpp"
#include "kernels/dense/aligned_copy.hpp"

namespace warploom::cuda {
namespace {

constexpr int threads_per_block = 256;
constexpr int vectors_per_block = 4 * threads_per_block;

struct rows_to_give_back {
  const uint4* from;
  char* to;
  std::int64_t to_pitch;  // bytes, as all of these
  std::int64_t row_bytes;
  std::int64_t num_rows;
  unsigned vectors_per_row;  // of the copy, 16 bytes each
  unsigned rows_per_block;
};

// Each thread reads 16 bytes and writes value by value.
template <class Value>
__global__ void __launch_bounds__(threads_per_block) give_back_kernel(const rows_to_give_back rows) {
  constexpr int values_per_vector = 16 / sizeof(Value);
  const std::int64_t first_row = std::int64_t{blockIdx.x} * rows.rows_per_block;
  const auto num_rows = static_cast<unsigned>(min(std::int64_t{rows.rows_per_block}, rows.num_rows - first_row));
  const uint4* const from = rows.from + first_row * rows.vectors_per_row;
  for (unsigned i = threadIdx.x; i < num_rows * rows.vectors_per_row; i += threads_per_block) {
    const unsigned row = i / rows.vectors_per_row;
    const std::int64_t at = std::int64_t{16} * (i - row * rows.vectors_per_row);
    auto* const to = reinterpret_cast<Value*>(rows.to + (first_row + row) * rows.to_pitch + at);
    const std::int64_t left = (rows.row_bytes - at) / static_cast<std::int64_t>(sizeof(Value));
    union {
      uint4 vector;
      Value values[values_per_vector];
    } loaded{from[i]};
#pragma unroll
    for (int v = 0; v < values_per_vector; ++v) {
      if (v < left) to[v] = loaded.values[v];
    }
  }
}

// The same memory in row-major order.
dense_view by_rows(const dense_view& view, layout order) {
  if (order == layout::row_major) return view;
  return {view.data, view.num_cols, view.num_rows, view.leading_dimension};
}

}  // namespace

std::uint32_t alignment_of_rows(const dense_view& operand, layout order, std::int64_t value_bytes) {
  const dense_view rows = by_rows(operand, order);
  const std::int64_t pitch = rows.num_rows > 1 ? rows.leading_dimension : 0;
  return alignment_of_bytes(reinterpret_cast<std::uintptr_t>(rows.data) |
                            static_cast<std::uint64_t>((rows.num_cols | pitch) * value_bytes));
}

dense_view aligned_shape(const dense_view& operand, std::int64_t rows, layout order, std::int64_t value_bytes) {
  const bool row_major = order == layout::row_major;
  const std::int64_t pitch = filled_up(row_major ? operand.num_cols : rows, value_bytes);
  return {nullptr, rows, row_major ? pitch : operand.num_cols, pitch};
}

aligned_copy::aligned_copy(const dense_view& operand, std::int64_t rows, layout order, std::int64_t value_bytes,
                           cudaStream_t stream)
    : operand_(by_rows(operand, order)),
      value_bytes_(value_bytes),
      stream_(stream),
      view_(aligned_shape(operand, rows, order, value_bytes)),
      memory_(by_rows(view_, order).num_rows, by_rows(view_, order).num_cols, value_bytes, stream) {
  view_.data = memory_.data();
}

void aligned_copy::take() { memory_.copy(operand_, 0, operand_.num_cols); }

void aligned_copy::give_back() const {
  const std::int64_t pitch = view_.leading_dimension * value_bytes_;
  const std::int64_t vectors = pitch / 16, rows_per_block = std::max<std::int64_t>(1, vectors_per_block / vectors);
  const rows_to_give_back rows{static_cast<const uint4*>(view_.data),
                               static_cast<char*>(operand_.data),
                               operand_.leading_dimension * value_bytes_,
                               operand_.num_cols * value_bytes_,
                               operand_.num_rows,
                               static_cast<unsigned>(vectors),
                               static_cast<unsigned>(rows_per_block)};
  const auto blocks = static_cast<unsigned>((operand_.num_rows + rows_per_block - 1) / rows_per_block);
  const auto launch = [&]<class Value>(Value) {
    give_back_kernel<Value><<<blocks, threads_per_block, 0, stream_>>>(rows);
  };
  if (value_bytes_ == 2) {
    launch(std::uint16_t{});
  } else if (value_bytes_ == 4) {
    launch(std::uint32_t{});
  } else {
    launch(std::uint64_t{});
  }
  check_launch("give_back_kernel");
}

}  // namespace warploom::cuda
