#include "formats.hpp"
#include "warploom/formats/dasp.hpp"

namespace warploom::python {
namespace {

py::tuple section_starts(const dasp_matrix& m) {
  return py::make_tuple(0, m.regular_begin(), m.pieced_begin(), m.single_begin(), m.irregular_begin(), m.num_slots());
}

py::list categories(const dasp_matrix& matrix) {
  py::list result;
  for (const dasp_category& c : matrix.categories()) result.append(py::make_tuple(c.name, c.rows, c.nnz, c.padding));
  return result;
}

py::tuple options(const dasp_matrix& matrix) {
  const dasp_options& o = matrix.options;
  return py::make_tuple(o.mma_m, o.mma_k, o.max_length, o.threshold);
}

}  // namespace

void bind_format_dasp(py::module_& module) {
  const auto array = [](auto member) {
    return [member](const py::object& self) { return read_only(self.cast<const dasp_matrix&>().*member, self); };
  };
  py::class_<dasp_matrix>(module, "DaspMatrix")
      .def_property_readonly("shape", [](const dasp_matrix& m) { return py::make_tuple(m.num_rows, m.num_cols); })
      .def_property_readonly("dtype", [](const dasp_matrix& m) { return numpy_dtype(m.dtype); })
      .def_property_readonly("nnz", &dasp_matrix::nnz)
      .def_property_readonly("nbytes", &dasp_matrix::bytes)
      .def_property_readonly("options", &options)
      .def_property_readonly("section_starts", &section_starts)
      .def_property_readonly("categories", &categories)
      .def_property_readonly("row_ids", array(&dasp_matrix::row_ids))
      .def_property_readonly("group_ptr", array(&dasp_matrix::group_ptr))
      .def_property_readonly("block_ptr", array(&dasp_matrix::block_ptr))
      .def_property_readonly("irregular_ptr", array(&dasp_matrix::irregular_ptr))
      .def_property_readonly("indices", array(&dasp_matrix::indices))
      .def_property_readonly("data",
                             [](const py::object& self) {
                               const auto& matrix = self.cast<const dasp_matrix&>();
                               return read_only_values(matrix.data, matrix.dtype, self);
                             })
      .def_static(
          "from_csr",
          [](const csr_holder& matrix, int mma_m, int mma_k, int max_length, double threshold) {
            const csr_view& view = with_values(matrix);
            const py::gil_scoped_release release;
            return to_dasp(view, {mma_m, mma_k, max_length, threshold});
          },
          py::arg("matrix"), py::arg("mma_m"), py::arg("mma_k"), py::arg("max_length"), py::arg("threshold"))
      .def("to_csr", [](const dasp_matrix& matrix) {
        csr_matrix result;
        {
          const py::gil_scoped_release release;
          result = to_csr(matrix);
        }
        return release_arrays(std::move(result));
      });
}

}  // namespace warploom::python
