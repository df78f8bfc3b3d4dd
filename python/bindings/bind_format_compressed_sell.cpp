#include "formats.hpp"
#include "warploom/formats/compressed_sell.hpp"

namespace warploom::python {

void bind_format_compressed_sell(py::module_& module) {
  using matrix_type = compressed_sell_matrix;
  py::class_<matrix_type>(module, "CompressedSellMatrix")
      .def_static(
          "from_csr",
          [](const csr_holder& matrix, int rows_per_lane, int sort_window, int parts) {
            const csr_view& view = with_values(matrix);
            const py::gil_scoped_release release;
            return to_compressed_sell(view, {rows_per_lane, sort_window, parts});
          },
          py::arg("matrix"), py::arg("rows_per_lane"), py::arg("sort_window"), py::arg("parts"))
      .def("to_csr",
           [](const matrix_type& matrix) {
             csr_matrix result;
             {
               const py::gil_scoped_release release;
               result = to_csr(matrix);
             }
             return release_arrays(std::move(result));
           })
      .def_property_readonly("shape", [](const matrix_type& m) { return py::make_tuple(m.num_rows, m.num_cols); })
      .def_property_readonly("dtype", [](const matrix_type& m) { return numpy_dtype(m.dtype); })
      .def_property_readonly("nnz", &matrix_type::nnz)
      .def_property_readonly("nbytes", &matrix_type::bytes)
      .def_property_readonly("places", &matrix_type::places)
      .def_property_readonly("rows_per_lane", [](const matrix_type& m) { return m.options.rows_per_lane; })
      .def_property_readonly("sort_window", [](const matrix_type& m) { return m.options.sort_window; })
      .def_property_readonly("parts", [](const matrix_type& m) { return m.options.parts; })
      .def_property_readonly("encodings",
                             [](const matrix_type& m) {
                               py::dict counts;
                               const auto segments = m.segments_by_encoding();
                               for (std::size_t e = 0; e < segments.size(); ++e) {
                                 counts[sell_encoding_names[e]] = segments[e];
                               }
                               return counts;
                             })
      .def_property_readonly("segments",
                             [](const py::object& self) {
                               const auto& segments = self.cast<const matrix_type&>().segments;
                               const auto* first = reinterpret_cast<const std::uint32_t*>(segments.data());
                               const py::array::ShapeContainer shape{static_cast<py::ssize_t>(segments.size()),
                                                                     py::ssize_t{4}};
                               py::array_t<std::uint32_t> array(shape, first, self);
                               array.attr("flags").attr("writeable") = false;
                               return array;
                             })
      .def_property_readonly("indices",
                             [](const py::object& self) {
                               const auto& indices = self.cast<const matrix_type&>().indices;
                               py::array_t<std::uint8_t> array(static_cast<py::ssize_t>(indices.size()),
                                                               reinterpret_cast<const std::uint8_t*>(indices.data()),
                                                               self);
                               array.attr("flags").attr("writeable") = false;
                               return array;
                             })
      .def_property_readonly("data",
                             [](const py::object& self) {
                               const auto& matrix = self.cast<const matrix_type&>();
                               return read_only_values(matrix.data, matrix.dtype, self);
                             })
      .def_property_readonly(
          "row_ids", [](const py::object& self) { return read_only(self.cast<const matrix_type&>().row_ids, self); });
}

}  // namespace warploom::python
