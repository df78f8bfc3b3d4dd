// Dense operands whose rows, or columns in column-major order, begin on 16 bytes: copies of others.
#pragma once

#include <cstdint>

#include "kernels/spmm/copied_panels.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom::cuda {

// The largest power of two, of `most` (one, too) at most, that is a divisor of `bytes`.
constexpr std::uint32_t alignment_of_bytes(std::uint64_t bytes, std::uint32_t most = 16) {
  bytes |= most;
  return static_cast<std::uint32_t>(bytes & (~bytes + 1));
}

// Values filled up to 16 bytes.
constexpr std::int64_t filled_up(std::int64_t values, std::int64_t value_bytes) {
  return (values * value_bytes + 15) / 16 * 16 / value_bytes;
}

// Bytes that all rows begin and end on, or columns in column-major order.
std::uint32_t alignment_of_rows(const dense_view& operand, layout order, std::int64_t value_bytes);

// An operand of `rows` rows, as many as this one or more, as its copy is stored. The columns of a row-major one are
// filled up, too. Without data.
dense_view aligned_shape(const dense_view& operand, std::int64_t rows, layout order, std::int64_t value_bytes);

// Memory for a copy, borrowed for the calls that are enqueued on a stream.
class aligned_copy {
 public:
  aligned_copy(const dense_view& operand, std::int64_t rows, layout order, std::int64_t value_bytes,
               cudaStream_t stream);

  const dense_view& view() const { return view_; }
  // What the operand holds, with zeros around it.
  void take();
  void give_back() const;

 private:
  dense_view operand_;  // by rows
  std::int64_t value_bytes_;
  cudaStream_t stream_;
  dense_view view_;
  panel_copy memory_;
};

}  // namespace warploom::cuda
