// What the bindings of all formats share.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "common.hpp"
#include "warploom/error.hpp"
#include "warploom/formats/csr.hpp"

namespace warploom::python {

// A view without a copy that keeps `owner` alive. Read-only: kernels trust that the arrays stay a matrix.
template <class Value>
py::array read_only(const std::vector<Value>& values, const py::object& owner) {
  py::array_t<Value> array(static_cast<py::ssize_t>(values.size()), values.data(), owner);
  array.attr("flags").attr("writeable") = false;
  return array;
}

inline py::array read_only_values(const std::vector<std::byte>& bytes, value_type type, const py::object& owner) {
  const auto size = static_cast<py::ssize_t>(bytes.size() / size_of(type));
  py::array array(numpy_dtype(type), {size}, {}, bytes.data(), owner);
  array.attr("flags").attr("writeable") = false;
  return array;
}

// The storage of values handed to NumPy without a copy.
inline py::array values_to_numpy(std::vector<std::byte> bytes, value_type type) {
  auto owner = std::make_unique<std::vector<std::byte>>(std::move(bytes));
  const void* first = owner->data();
  const auto size = static_cast<py::ssize_t>(owner->size() / size_of(type));
  const py::capsule release(owner.release(), [](void* p) { delete static_cast<std::vector<std::byte>*>(p); });
  return py::array(numpy_dtype(type), {size}, {}, first, release);
}

// (data, indices, indptr), as SciPy takes them.
inline py::tuple release_arrays(csr_matrix matrix) {
  py::array data = values_to_numpy(std::move(matrix.data), matrix.dtype);
  return py::make_tuple(std::move(data), to_numpy(std::move(matrix.indices)), to_numpy(std::move(matrix.indptr)));
}

// A format stores values, so a view of a pattern alone will not do.
inline const csr_view& with_values(const csr_holder& matrix) {
  if (!matrix.data) throw error(error_kind::invalid_matrix, "data", -1, "the matrix has no values, only a pattern");
  return matrix.view;
}

// What every format has.
template <class Matrix>
py::class_<Matrix> bind_stored_matrix(py::module_& module, const char* name) {
  return py::class_<Matrix>(module, name)
      .def_property_readonly("shape", [](const Matrix& m) { return py::make_tuple(m.num_rows, m.num_cols); })
      .def_property_readonly("dtype", [](const Matrix& m) { return numpy_dtype(m.dtype); })
      .def_property_readonly("nnz", &Matrix::nnz)
      .def_property_readonly("nbytes", &Matrix::bytes)
      .def_property_readonly("indptr",
                             [](const py::object& self) { return read_only(self.cast<const Matrix&>().indptr, self); })
      .def_property_readonly("indices",
                             [](const py::object& self) { return read_only(self.cast<const Matrix&>().indices, self); })
      .def_property_readonly("data", [](const py::object& self) {
        const auto& matrix = self.cast<const Matrix&>();
        return read_only_values(matrix.data, matrix.dtype, self);
      });
}

}  // namespace warploom::python
