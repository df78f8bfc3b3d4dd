// Views that kernels take by value. Device code only; includes nothing of the host side.
#pragma once

#include <cstdint>

namespace warploom::cuda {

// Row offsets, 32-bit whenever the number of nonzeros allows. The branch is uniform over the grid, which costs less
// than compiling every kernel twice.
struct offsets_view {
  const void* offsets;
  bool wide;

  __device__ std::int64_t operator[](std::int64_t i) const {
    return wide ? static_cast<const std::int64_t*>(offsets)[i] : static_cast<const std::int32_t*>(offsets)[i];
  }
};

// The stored rows of row_storage, and the rows of C that have none and must still be written.
template <class Value>
struct rows_view {
  std::int64_t num_stored_rows;
  std::int64_t num_empty_rows;
  offsets_view indptr;
  const std::int32_t* row_ids;  // null: stored row p produces row p of C
  const std::int32_t* empty_rows;
  const std::int32_t* indices;
  const Value* data;

  __device__ std::int64_t row_of(std::int64_t stored_row) const { return row_ids ? row_ids[stored_row] : stored_row; }
};

}  // namespace warploom::cuda
