#include "padded_formats.hpp"
#include "warploom/formats/sell.hpp"

namespace warploom::python {

void bind_format_sell(py::module_& module) {
  bind_places<sell_matrix>(module, "SellMatrix")
      .def_property_readonly("slice_height", [](const sell_matrix& matrix) { return matrix.slice_height; })
      .def_property_readonly("sort_window", [](const sell_matrix& matrix) { return matrix.sort_window; })
      .def_property_readonly(
          "slice_ptr",
          [](const py::object& self) { return read_only(self.cast<const sell_matrix&>().slice_ptr, self); })
      .def_property_readonly(
          "row_ids", [](const py::object& self) { return read_only(self.cast<const sell_matrix&>().row_ids, self); })
      .def_static(
          "from_csr",
          [](const csr_holder& matrix, int slice_height, std::int64_t sort_window) {
            const csr_view& view = with_values(matrix);
            const py::gil_scoped_release release;
            return to_sell(view, slice_height, sort_window);
          },
          py::arg("matrix"), py::arg("slice_height"), py::arg("sort_window"));
}

}  // namespace warploom::python
