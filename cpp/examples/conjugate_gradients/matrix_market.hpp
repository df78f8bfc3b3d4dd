// Sparse matrices in Matrix Market files: https://math.nist.gov/MatrixMarket/formats.html
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "warploom/warploom.hpp"

struct sparse_matrix {
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  std::vector<std::int64_t> indptr;
  std::vector<std::int32_t> indices;
  std::vector<double> data;

  warploom::csr_view view() const {
    return {{num_rows, num_cols, indptr.data(), indices.data()}, data.data(), warploom::value_type::float64};
  }
};

// Reads a coordinate file whose values are real or integer, or all 1 (pattern); general or symmetric. Throws
// std::runtime_error with the file, the line and what is wrong there.
sparse_matrix read_matrix_market(const std::filesystem::path& path);
