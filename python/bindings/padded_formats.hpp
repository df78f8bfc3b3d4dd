// What the bindings of formats without row offsets share.
#pragma once

#include "formats.hpp"

namespace warploom::python {

// As (data, indices, indptr); the conversion runs without the GIL.
template <class Matrix>
py::tuple convert_to_csr(const Matrix& matrix) {
  csr_matrix result;
  {
    const py::gil_scoped_release release;
    result = to_csr(matrix);
  }
  return release_arrays(std::move(result));
}

template <class Matrix>
py::class_<Matrix> bind_places(py::module_& module, const char* name) {
  return py::class_<Matrix>(module, name)
      .def_property_readonly("shape", [](const Matrix& m) { return py::make_tuple(m.num_rows, m.num_cols); })
      .def_property_readonly("dtype", [](const Matrix& m) { return numpy_dtype(m.dtype); })
      .def_property_readonly("nnz", &Matrix::nnz)
      .def_property_readonly("places", &Matrix::places)
      .def_property_readonly("nbytes", &Matrix::bytes)
      .def_property_readonly("indices",
                             [](const py::object& self) { return read_only(self.cast<const Matrix&>().indices, self); })
      .def_property_readonly("data",
                             [](const py::object& self) {
                               const auto& matrix = self.cast<const Matrix&>();
                               return read_only_values(matrix.data, matrix.dtype, self);
                             })
      .def("to_csr", &convert_to_csr<Matrix>);
}

}  // namespace warploom::python
