#include "host_operands.hpp"

#include "warploom/error.hpp"

namespace warploom::python {
namespace {

std::string shape_of(std::int64_t rows, std::int64_t columns) {
  return "(" + std::to_string(rows) + ", " + std::to_string(columns) + ")";
}

}  // namespace

void check_dtype(const py::array& array, value_type dtype, const char* name) {
  if (value_type_of(array) == dtype) return;
  throw error(error_kind::dtype, name, -1,
              std::string(name) + " must be " + name_of(dtype) + " like the matrix, got " +
                  py::cast<std::string>(py::str(array.dtype())));
}

std::int64_t leading_dimension(const py::array& array, layout order) {
  const int inner = order == layout::row_major ? 1 : 0;
  const int outer = 1 - inner;
  const std::int64_t inner_size = array.shape(inner);
  if (array.size() == 0) return inner_size;
  if (inner_size > 1 && array.strides(inner) != array.itemsize()) return -1;
  if (array.shape(outer) == 1) return inner_size;
  const std::int64_t stride = array.strides(outer);
  const bool fits = stride % array.itemsize() == 0 && stride / array.itemsize() >= inner_size;
  return fits ? stride / array.itemsize() : -1;
}

dense_view view_dense(const py::array& array, layout order, value_type dtype, const char* name) {
  if (array.ndim() != 2) {
    throw error(error_kind::shape, name, -1,
                std::string(name) + " must be two-dimensional, got " + std::to_string(array.ndim()) + " dimensions");
  }
  check_dtype(array, dtype, name);
  const std::int64_t ld = leading_dimension(array, order);
  const bool aligned = reinterpret_cast<std::uintptr_t>(array.data()) % array.itemsize() == 0;
  if (ld < 0 || !aligned) {
    throw error(error_kind::shape, name, -1,
                std::string(name) + " must be an aligned " + name_of(order) + "-major array (" +
                    (order == layout::row_major ? "C" : "Fortran") + " order, padding between the " + name_of(order) +
                    "s allowed)");
  }
  return {const_cast<void*>(array.data()), array.shape(0), array.shape(1), ld};
}

void check_shape(const dense_view& view, std::int64_t rows, std::int64_t columns, const char* name) {
  if (view.num_rows == rows && view.num_cols == columns) return;
  throw error(error_kind::shape, name, -1,
              std::string(name) + " must have shape " + shape_of(rows, columns) + ", got " +
                  shape_of(view.num_rows, view.num_cols));
}

void check_has_values(const csr_holder& matrix) {
  if (matrix.data) return;
  throw error(error_kind::invalid_matrix, "data", -1, "the matrix is a pattern without values; a product needs them");
}

kernel_inputs view_inputs(const std::map<std::string, permutation_array>& given) {
  kernel_inputs inputs;
  for (const auto& [name, values] : given) {
    if (values.ndim() != 1) throw error(error_kind::parameter, name, -1, name + " must be one-dimensional");
    inputs[name] = {values.data(), static_cast<std::size_t>(values.size())};
  }
  return inputs;
}

}  // namespace warploom::python
