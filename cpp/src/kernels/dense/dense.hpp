// A dense matrix: a place for every entry that there could be.
//
// Rows follow each other, each filled up to a multiple of 16 bytes, and of a cache line if it has 16 of them. Places
// without an entry hold 0. On the host it is stored which places hold one (`occupied`), so that stored zeros survive a
// round trip. Entries of a row come back in the order of their columns, and repeated ones are added up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "warploom/csr_view.hpp"
#include "warploom/formats/csr.hpp"
#include "warploom/formats/format.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

struct dense_shape {
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  value_type dtype = value_type::float32;

  std::int64_t leading_dimension() const {
    const std::int64_t size = size_of(dtype), filled_up = num_cols * size < 2048 ? 16 : 128;
    return (num_cols * size + filled_up - 1) / filled_up * filled_up / size;
  }
  std::int64_t places() const { return num_rows * leading_dimension(); }
  std::int64_t words_per_row() const { return (num_cols + 31) / 32; }  // of `occupied`
};

struct dense_matrix {
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  value_type dtype = value_type::float32;
  std::int64_t num_entries = 0;         // repeated ones count once
  std::vector<std::byte> data;          // [rows][leading dimension]
  std::vector<std::uint32_t> occupied;  // [rows][words per row]: bit j of word i: column 32 i + j

  dense_shape shape() const { return {num_rows, num_cols, dtype}; }
  std::int64_t nnz() const { return num_entries; }
  std::int64_t places() const { return shape().places(); }
  std::size_t bytes() const;
  std::vector<format_field> fields() const;
};

// Throws error_kind::parameter if it is more than can be stored, as far as `check_dense_size` tells.
dense_matrix to_dense(const csr_view& matrix);
csr_matrix to_csr(const dense_matrix& matrix);
void check_dense_size(const dense_shape& shape);

// Why a product does not store a matrix so, or "".
std::string dense_reason(const matrix_summary& matrix);
// Of values of two bytes, if some row has two entries of one column.
std::string dense_repeats_reason();

}  // namespace warploom
