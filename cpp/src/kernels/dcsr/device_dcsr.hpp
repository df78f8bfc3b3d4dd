// The rows of a matrix that hold nonzeros, found in GPU memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device_csr.hpp"

namespace warploom::cuda {

// Stored row p has the nonzeros indptr[p] .. indptr[p + 1] of the matrix and produces row row_ids[p] of C.
struct nonempty_rows {
  std::int64_t count;
  device_array<std::int32_t> row_ids;     // [count]
  device_array<std::int32_t> indptr32;    // [count + 1], unless the matrix has 64-bit offsets
  device_array<std::int64_t> indptr64;    // [count + 1], if it has
  device_array<std::int32_t> empty_rows;  // rows of C without nonzeros

  nonempty_rows(const device_csr& matrix, const std::int32_t* row_ids_of_matrix, bool list_empty_rows,
                const device_allocator& allocate);
  std::size_t bytes() const { return row_ids.bytes() + indptr32.bytes() + indptr64.bytes() + empty_rows.bytes(); }
};

}  // namespace warploom::cuda
