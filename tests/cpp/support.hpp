// What several tests need: small matrices, and the error that a call throws.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "warploom/error.hpp"
#include "warploom/formats/csr.hpp"

namespace warploom::test {

// A matrix with the given column indices in its rows. Nonzero j has the value j + 1, so that every value shows where
// it came from.
inline csr_matrix make_csr(std::int64_t num_cols, const std::vector<std::vector<std::int32_t>>& rows,
                           value_type dtype = value_type::float32) {
  csr_matrix matrix;
  matrix.num_rows = static_cast<std::int64_t>(rows.size());
  matrix.num_cols = num_cols;
  matrix.dtype = dtype;
  for (const auto& row : rows) {
    matrix.indices.insert(matrix.indices.end(), row.begin(), row.end());
    matrix.indptr.push_back(matrix.nnz());
  }
  matrix.data.resize(matrix.nnz() * size_of(dtype));
  dispatch_value_type(dtype, [&](auto zero) {
    for (std::int64_t j = 0; j < matrix.nnz(); ++j) {
      const auto value = static_cast<decltype(zero)>(static_cast<double>(j + 1));
      std::memcpy(matrix.data.data() + j * sizeof(value), &value, sizeof(value));
    }
  });
  return matrix;
}

// Entry `position` of an array of `dtype`.
inline double value_at(const void* data, std::int64_t position, value_type dtype) {
  return dispatch_value_type(dtype, [&](auto value) {
    std::memcpy(&value, static_cast<const std::byte*>(data) + position * sizeof(value), sizeof(value));
    return static_cast<double>(+value);
  });
}

// The error that `function` throws; fails the test if it throws none.
template <class Function>
error error_of(Function&& function) {
  try {
    function();
  } catch (const error& e) {
    return e;
  }
  FAIL("no error was thrown");
  std::abort();  // FAIL does not return
}

}  // namespace warploom::test
