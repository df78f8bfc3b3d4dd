// Coordinates (Koza et al. 2014, Sec. 2.3): row, column and value of every entry, in the order of the CSR matrix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "warploom/csr_view.hpp"
#include "warploom/formats/csr.hpp"

namespace warploom {

struct coo_matrix {
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  value_type dtype = value_type::float32;
  std::vector<std::int32_t> row_indices;  // never decrease
  std::vector<std::int32_t> indices;
  std::vector<std::byte> data;

  std::int64_t nnz() const { return static_cast<std::int64_t>(indices.size()); }
  std::int64_t places() const { return nnz(); }
  std::size_t bytes() const;
  std::vector<format_field> fields() const;
};

coo_matrix to_coo(const csr_view& matrix);
csr_matrix to_csr(const coo_matrix& matrix);

// The CSR row offsets that the row indices stand for.
std::vector<std::int64_t> row_offsets(const coo_matrix& matrix);

}  // namespace warploom
