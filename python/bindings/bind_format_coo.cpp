#include "padded_formats.hpp"
#include "warploom/formats/coo.hpp"

namespace warploom::python {

void bind_format_coo(py::module_& module) {
  bind_places<coo_matrix>(module, "CooMatrix")
      .def_property_readonly(
          "row_indices",
          [](const py::object& self) { return read_only(self.cast<const coo_matrix&>().row_indices, self); })
      .def_static(
          "from_csr",
          [](const csr_holder& matrix) {
            const csr_view& view = with_values(matrix);
            const py::gil_scoped_release release;
            return to_coo(view);
          },
          py::arg("matrix"));
}

}  // namespace warploom::python
