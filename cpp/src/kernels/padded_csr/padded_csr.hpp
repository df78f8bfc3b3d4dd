// CSR with every stored row padded to the same number of entries.
//
// Row p holds the entries p * width .. (p + 1) * width, so that a thread finds them without reading row offsets first:
// one memory latency less, which is what products with small matrices consist of. The width is a multiple of four, so
// that four column indices or values are loaded at once. A column index of -1 marks padding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/csr/row_storage.hpp"
#include "warploom/csr_view.hpp"

namespace warploom {

struct padded_csr {
  std::int64_t num_rows = 0;  // of A and C
  std::int64_t num_cols = 0;
  value_type dtype = value_type::float32;
  int width = 0;                      // entries per stored row, a multiple of 4
  std::vector<std::int32_t> row_ids;  // as in row_storage
  std::vector<std::int32_t> indices;  // [number of stored rows * width], -1 where padded
  std::vector<std::byte> data;        // [number of stored rows * width] of `dtype`, 0 where padded

  std::size_t bytes() const;
};

// The width that to_padded gives a matrix: its longest row, rounded up to a multiple of 4.
std::int64_t padded_width(const csr_pattern& matrix);

// `rows` must store every row.
padded_csr to_padded(const row_storage& rows);

}  // namespace warploom
