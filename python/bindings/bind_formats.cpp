#include "formats.hpp"
#include "warploom/formats/dcsr.hpp"

namespace warploom::python {
namespace {

void bind_csr(py::module_& module) {
  bind_stored_matrix<csr_matrix>(module, "CsrMatrix")
      .def_static("from_csr",
                  [](const csr_holder& matrix) {
                    const csr_view& view = with_values(matrix);
                    const py::gil_scoped_release release;
                    return copy(view);
                  })
      .def("to_csr", [](const csr_matrix& matrix) {
        csr_matrix result;
        {
          const py::gil_scoped_release release;
          result = matrix;
        }
        return release_arrays(std::move(result));
      });
}

void bind_dcsr(py::module_& module) {
  bind_stored_matrix<dcsr_matrix>(module, "DcsrMatrix")
      .def_property_readonly(
          "row_ids", [](const py::object& self) { return read_only(self.cast<const dcsr_matrix&>().row_ids, self); })
      .def_static("from_csr",
                  [](const csr_holder& matrix) {
                    const csr_view& view = with_values(matrix);
                    const py::gil_scoped_release release;
                    return to_dcsr(view);
                  })
      .def("to_csr", [](const dcsr_matrix& matrix) {
        csr_matrix result;
        {
          const py::gil_scoped_release release;
          result = to_csr(matrix);
        }
        return release_arrays(std::move(result));
      });
}

}  // namespace

void bind_formats(py::module_& module) {
  bind_csr(module);
  bind_dcsr(module);
  bind_format_compressed_sell(module);
  bind_dasp(module);
  bind_column_panels(module);
  bind_format_bsr(module);
  bind_format_coo(module);
  bind_format_ell(module);
  bind_format_hyb(module);
  bind_format_sell(module);
  bind_format_cmrs(module);
}

}  // namespace warploom::python
