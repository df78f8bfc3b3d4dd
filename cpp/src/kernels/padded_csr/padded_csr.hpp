// CSR with every stored row padded to the same number of entries.
//
// Row p holds the entries p * width .. (p + 1) * width, so that a thread finds them without reading row offsets first:
// one memory latency less, which matters most for small matrices. The width is a multiple of four, so
// that four column indices or values are loaded at once. A column index of -1 marks padding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/csr/row_storage.hpp"
#include "warploom/csr_view.hpp"
#include "warploom/formats/csr.hpp"

namespace warploom {

struct padded_csr {
  std::int64_t num_rows = 0;  // of A and C
  std::int64_t num_cols = 0;
  value_type dtype = value_type::float32;
  int width = 0;  // places per stored row, a multiple of 4
  std::int64_t num_entries = 0;
  std::vector<std::int32_t> row_ids;  // as in row_storage
  std::vector<std::int32_t> indices;  // [number of stored rows * width], -1 where padded
  std::vector<std::byte> data;        // [number of stored rows * width] of `dtype`, 0 where padded

  std::int64_t nnz() const { return num_entries; }
  std::int64_t places() const { return static_cast<std::int64_t>(indices.size()); }
  std::size_t bytes() const;
  std::vector<format_field> fields() const;
};

// The width that to_padded gives a matrix: the length of its longest row, rounded up to a multiple of 4.
std::int64_t padded_width(std::int64_t longest_row);

// `rows` must store every row.
padded_csr to_padded(const row_storage& rows);

// Throws error_kind::parameter if a row is longer than `max_width`, or, without one, if the padding would be beyond
// reason.
padded_csr to_padded(const csr_view& matrix, std::optional<std::int64_t> max_width);

// In the caller's row order, entries in their stored order.
csr_matrix to_csr(const padded_csr& matrix);

}  // namespace warploom
