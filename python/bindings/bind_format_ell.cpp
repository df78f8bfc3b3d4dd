#include "padded_formats.hpp"
#include "warploom/formats/ell.hpp"

namespace warploom::python {

void bind_format_ell(py::module_& module) {
  bind_places<ell_matrix>(module, "EllMatrix")
      .def_property_readonly("width", [](const ell_matrix& matrix) { return matrix.width; })
      .def_static(
          "from_csr",
          [](const csr_holder& matrix, std::optional<std::int64_t> max_width) {
            const csr_view& view = with_values(matrix);
            const py::gil_scoped_release release;
            return to_ell(view, max_width);
          },
          py::arg("matrix"), py::arg("max_width"));
}

}  // namespace warploom::python
