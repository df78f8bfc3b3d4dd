// SpMM on the CPU for values of two bytes: in float32, with operands that are widened and results that are rounded
// once.
#pragma once

#include <memory>
#include <vector>

#include "warploom/kernels/product.hpp"

namespace warploom {

namespace detail {

// The values of a matrix of two bytes a value, in float32. `values` receives them.
csr_view widened(const csr_view& matrix, std::vector<float>& values);
std::unique_ptr<product_plan> make_widening_plan(std::unique_ptr<product_plan> inner, value_type dtype, layout order);

}  // namespace detail

// What prepare(matrix, request) makes of the same matrix in float32, working on B and C of the type of `matrix`. The
// plan must not refer to the values it is given. A matrix of wider values is prepared as it is.
template <class Prepare>
std::unique_ptr<product_plan> in_float32_at_least(const csr_view& matrix, const product_request& request,
                                                  Prepare prepare) {
  if (size_of(matrix.dtype) != 2) return prepare(matrix, request);
  std::vector<float> values;
  return detail::make_widening_plan(prepare(detail::widened(matrix, values), request), matrix.dtype, request.order);
}

}  // namespace warploom
