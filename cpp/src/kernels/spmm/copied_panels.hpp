// Products computed from copies of panels of a row-major B, whose rows begin on 16 bytes and are filled up with zeros.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "device/workspace.hpp"
#include "warploom/error.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom::cuda {

// Memory for the copy of a panel of B, borrowed for the calls that are enqueued on a stream.
class panel_copy {
 public:
  // Room for `columns` columns of so many rows.
  panel_copy(std::int64_t rows, std::int64_t columns, std::int64_t value_bytes, cudaStream_t stream);

  // Copies columns first .. first + columns of B. The copy is as wide as those, filled up to 16 bytes, and has as many
  // rows as there is room for: those that B does not have hold zeros.
  dense_view copy(const dense_view& B, std::int64_t first, std::int64_t columns);
  void* data() const { return memory_.data(); }

 private:
  std::int64_t rows_;
  std::int64_t value_bytes_;
  cudaStream_t stream_;
  pooled_memory memory_;
};

// Calls multiply(copy, first, columns) for panels of `panel` columns of B; what is left at the end and is no wider than
// `too_few` is not copied: `copy` is without data then. False, with nothing enqueued, if there is no memory for a copy.
template <class Multiply>
bool multiply_copied_panels(const dense_view& B, std::int64_t value_bytes, std::int64_t panel, std::int64_t too_few,
                            cudaStream_t stream, Multiply&& multiply) {
  std::optional<panel_copy> memory;
  try {
    memory.emplace(B.num_rows, panel, value_bytes, stream);
  } catch (const error& failure) {
    if (failure.kind() != error_kind::out_of_memory) throw;
    return false;
  }
  for (std::int64_t first = 0; first < B.num_cols; first += panel) {
    const std::int64_t columns = std::min(panel, B.num_cols - first);
    multiply(columns > too_few ? memory->copy(B, first, columns) : dense_view{}, first, columns);
  }
  return true;
}

}  // namespace warploom::cuda
