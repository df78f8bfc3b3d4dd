#include "padded_formats.hpp"
#include "warploom/formats/bsr.hpp"

namespace warploom::python {

void bind_format_bsr(py::module_& module) {
  bind_places<bsr_matrix>(module, "BsrMatrix")
      .def_property_readonly("block_size", [](const bsr_matrix& matrix) { return matrix.block_size; })
      .def_property_readonly(
          "indptr", [](const py::object& self) { return read_only(self.cast<const bsr_matrix&>().indptr, self); })
      .def_property_readonly(
          "occupied", [](const py::object& self) { return read_only(self.cast<const bsr_matrix&>().occupied, self); })
      .def_static(
          "from_csr",
          [](const csr_holder& matrix, int block_size) {
            const csr_view& view = with_values(matrix);
            const py::gil_scoped_release release;
            return to_bsr(view, block_size);
          },
          py::arg("matrix"), py::arg("block_size"));
}

}  // namespace warploom::python
