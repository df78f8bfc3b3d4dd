// A CSR matrix that owns its arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "warploom/csr_view.hpp"

namespace warploom {

struct format_field;  // what every format shows of itself: warploom/formats/format.hpp

struct csr_matrix {
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  value_type dtype = value_type::float32;
  std::vector<std::int64_t> indptr{0};
  std::vector<std::int32_t> indices;
  std::vector<std::byte> data;

  std::int64_t nnz() const { return static_cast<std::int64_t>(indices.size()); }
  csr_view view() const;
  std::size_t bytes() const;  // of the three arrays
  std::vector<format_field> fields() const;
};

inline csr_matrix to_csr(const csr_matrix& matrix) { return matrix; }

// A matrix without nonzeros: `indptr` is all 0.
csr_matrix empty_csr(std::int64_t num_rows, std::int64_t num_cols, value_type dtype);

// A copy that no longer depends on the viewed arrays.
csr_matrix copy(const csr_view& matrix);

// A[rows], a permutation or some of the rows: row p of the result is row rows[p] of `matrix`, its nonzeros in their
// stored order.
csr_matrix permute_rows(const csr_view& matrix, std::span<const std::int32_t> rows);

}  // namespace warploom
