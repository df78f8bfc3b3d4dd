#include "warploom/kernels/product.hpp"

#include <cmath>

namespace warploom {
namespace {

template <class Value>
double element(const dense_view& matrix, layout order, std::int64_t row, std::int64_t column) {
  const std::int64_t ld = matrix.leading_dimension;
  const std::int64_t at = order == layout::row_major ? row * ld + column : row + column * ld;
  return static_cast<double>(static_cast<const Value*>(matrix.data)[at]);
}

template <class Value>
void multiply(const csr_view& matrix, const dense_view& B, layout order, double* C, double* absolute) {
  const std::int64_t k = B.num_cols;
  const Value* values = matrix.values<Value>();
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) {
    for (std::int64_t column = 0; column < k; ++column) {
      double sum = 0;
      double sum_of_magnitudes = 0;
      for (std::int64_t j = matrix.indptr[row]; j < matrix.indptr[row + 1]; ++j) {
        const double product = static_cast<double>(values[j]) * element<Value>(B, order, matrix.indices[j], column);
        sum += product;
        sum_of_magnitudes += std::abs(product);
      }
      C[row * k + column] = sum;
      if (absolute) absolute[row * k + column] = sum_of_magnitudes;
    }
  }
}

}  // namespace

void reference_product(const csr_view& matrix, const dense_view& B, layout order, double* C, double* absolute) {
  dispatch_value_type(matrix.dtype, [&]<class Value>(Value) { multiply<Value>(matrix, B, order, C, absolute); });
}

}  // namespace warploom
