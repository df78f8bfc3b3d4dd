#include "formats.hpp"
#include "padded_formats.hpp"
#include "warploom/formats/hyb.hpp"

namespace warploom::python {

// The two parts keep the whole alive.
void bind_format_hyb(py::module_& module) {
  py::class_<hyb_matrix>(module, "HybMatrix")
      .def_property_readonly("shape", [](const hyb_matrix& m) { return py::make_tuple(m.num_rows, m.num_cols); })
      .def_property_readonly("dtype", [](const hyb_matrix& m) { return numpy_dtype(m.dtype); })
      .def_property_readonly("nnz", &hyb_matrix::nnz)
      .def_property_readonly("places", &hyb_matrix::places)
      .def_property_readonly("nbytes", &hyb_matrix::bytes)
      .def_readonly("ell", &hyb_matrix::ell)
      .def_readonly("coo", &hyb_matrix::coo)
      .def("to_csr", &convert_to_csr<hyb_matrix>)
      .def_static(
          "from_csr",
          [](const csr_holder& matrix, std::int64_t width) {
            const csr_view& view = with_values(matrix);
            const py::gil_scoped_release release;
            return to_hyb(view, width);
          },
          py::arg("matrix"), py::arg("width"));
}

}  // namespace warploom::python
