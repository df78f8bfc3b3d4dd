// A row-major SpMM plan made to work on column-major B and C.
#pragma once

#include <memory>

#include "device/device_csr.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom::cuda {

// Number of columns of the row-major copies for k columns of B: rows aligned to 16 bytes allow vector loads and stores.
inline std::int64_t padded_columns(std::int64_t k, value_type dtype) {
  const std::int64_t at_once = size_of(dtype) == 2 ? 8 : 4;
  return (k + at_once - 1) / at_once * at_once;
}

// Copies B to row-major order, runs `inner`, and copies the result back to column-major order. Holds room for k columns
// of B and C; wider products are computed panel by panel. `inner` is prepared for padded_columns(k, dtype) columns.
std::unique_ptr<product_plan> make_transposing_plan(std::unique_ptr<product_plan> inner, const device_csr& matrix,
                                                    std::int64_t k, const device_allocator& allocate);

// The plan that make(request) returns for row-major B and C, made to work on them in the order of the request.
template <class Make>
std::unique_ptr<product_plan> in_requested_order(const device_csr& matrix, product_request request,
                                                 const device_allocator& allocate, Make make) {
  if (request.order == layout::row_major) return make(request);
  const std::int64_t k = request.k;
  request.order = layout::row_major;
  request.k = padded_columns(k, matrix.dtype());
  return make_transposing_plan(make(request), matrix, k, allocate);
}

}  // namespace warploom::cuda
