#include "formats.hpp"
#include "warploom/formats/column_panels.hpp"

namespace warploom::python {
namespace {

// A property that shows an array of the matrix.
template <class Value>
auto array_of(std::vector<Value> column_panels_matrix::* array) {
  return [array](const py::object& self) { return read_only(self.cast<const column_panels_matrix&>().*array, self); };
}

}  // namespace

void bind_format_column_panels(py::module_& module) {
  using matrix = column_panels_matrix;
  py::class_<matrix>(module, "ColumnPanelsMatrix")
      .def_property_readonly("shape", [](const matrix& m) { return py::make_tuple(m.num_rows, m.num_cols); })
      .def_property_readonly("dtype", [](const matrix& m) { return numpy_dtype(m.dtype); })
      .def_property_readonly("nnz", &matrix::nnz)
      .def_property_readonly("nbytes", &matrix::bytes)
      .def_readonly("panel_columns", &matrix::panel_columns)
      .def_property_readonly("panel_ptr", array_of(&matrix::panel_ptr))
      .def_property_readonly("columns", array_of(&matrix::columns))
      .def_property_readonly("data",
                             [](const py::object& self) {
                               const auto& m = self.cast<const matrix&>();
                               return read_only_values(m.data, m.dtype, self);
                             })
      .def_property_readonly("row_ends", array_of(&matrix::row_ends))
      .def_property_readonly("row_masks", array_of(&matrix::row_masks))
      .def_property_readonly("first_sums", array_of(&matrix::first_sums))
      .def_static(
          "from_csr",
          [](const csr_holder& given, int panel_columns) {
            const csr_view& view = with_values(given);
            const py::gil_scoped_release release;
            return to_column_panels(view, panel_columns);
          },
          py::arg("matrix"), py::arg("panel_columns"))
      .def("to_csr", [](const matrix& m) {
        csr_matrix result;
        {
          const py::gil_scoped_release release;
          result = to_csr(m);
        }
        return release_arrays(std::move(result));
      });
}

}  // namespace warploom::python
