// Operands of products in host memory, as NumPy gives them to functions that say what is wrong with them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom::python {

using permutation_array = py::array_t<std::int32_t, py::array::c_style>;

// Throws error_kind::dtype for an array of another type.
void check_dtype(const py::array& array, value_type dtype, const char* name);

// The leading dimension if the strides are those of `order`, else -1. Strides along dimensions of fewer than two
// elements are never used, and NumPy leaves them undefined.
std::int64_t leading_dimension(const py::array& array, layout order);

// The memory of a two-dimensional array. Throws error_kind::dtype for another type, error_kind::shape for what is not
// aligned or not in this order.
dense_view view_dense(const py::array& array, layout order, value_type dtype, const char* name);

// Throws error_kind::shape for an operand of another shape.
void check_shape(const dense_view& view, std::int64_t rows, std::int64_t columns, const char* name);

// Throws error_kind::invalid_matrix for a pattern without values.
void check_has_values(const csr_holder& matrix);

// What a kernel takes beside the matrix; refers to the arrays.
kernel_inputs view_inputs(const std::map<std::string, permutation_array>& given);

}  // namespace warploom::python
