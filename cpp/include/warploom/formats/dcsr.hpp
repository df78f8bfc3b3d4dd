// Doubly compressed sparse row: CSR without its empty rows (Buluc and Gilbert 2008; Mehrabi et al. 2021, Fig. 1).
//
// `row_ids` (the paper's rowptr) holds the indices of the rows that have nonzeros, ascending; `indptr` (the paper's
// rowidx) has one entry for each of them and one past the end. `indices` and `data` are those of the CSR matrix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "warploom/csr_view.hpp"
#include "warploom/formats/csr.hpp"

namespace warploom {

struct dcsr_matrix {
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  value_type dtype = value_type::float32;
  std::vector<std::int32_t> row_ids;
  std::vector<std::int64_t> indptr{0};
  std::vector<std::int32_t> indices;
  std::vector<std::byte> data;

  std::int64_t nnz() const { return static_cast<std::int64_t>(indices.size()); }
  std::size_t bytes() const;  // of the four arrays
  std::vector<format_field> fields() const;
};

dcsr_matrix to_dcsr(const csr_view& matrix);
csr_matrix to_csr(const dcsr_matrix& matrix);

}  // namespace warploom
