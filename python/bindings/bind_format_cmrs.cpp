#include <algorithm>

#include "formats.hpp"
#include "warploom/formats/cmrs.hpp"

namespace warploom::python {
namespace {

// What unpack(word) gives for each place of a packed matrix; `empty` for empty places.
template <class Value, class Unpack>
py::array unpacked(const cmrs_matrix& matrix, Value empty, Unpack unpack) {
  const bool may_be_empty = matrix.options.modulo > 0;
  std::vector<Value> places(matrix.words.size());
  std::transform(matrix.words.begin(), matrix.words.end(), places.begin(), [&](std::uint32_t word) {
    return may_be_empty && word == cmrs_matrix::empty_word ? empty : static_cast<Value>(unpack(word));
  });
  py::array array = to_numpy(std::move(places));
  array.attr("flags").attr("writeable") = false;
  return array;
}

py::array columns(const py::object& self) {
  const auto& matrix = self.cast<const cmrs_matrix&>();
  if (!matrix.options.packed) return read_only(matrix.indices, self);
  return unpacked(matrix, cmrs_matrix::empty_column, [](std::uint32_t word) { return word >> cmrs_matrix::row_bits; });
}

py::array rows_in_strip(const py::object& self) {
  const auto& matrix = self.cast<const cmrs_matrix&>();
  if (!matrix.options.packed) return read_only(matrix.row_in_strip, self);
  return unpacked(matrix, std::uint8_t{0}, [](std::uint32_t word) { return word % (1u << cmrs_matrix::row_bits); });
}

}  // namespace

void bind_format_cmrs(py::module_& module) {
  py::class_<cmrs_matrix>(module, "CmrsMatrix")
      .def_property_readonly("shape", [](const cmrs_matrix& m) { return py::make_tuple(m.num_rows, m.num_cols); })
      .def_property_readonly("dtype", [](const cmrs_matrix& m) { return numpy_dtype(m.dtype); })
      .def_property_readonly("nnz", &cmrs_matrix::nnz)
      .def_property_readonly("nbytes", &cmrs_matrix::bytes)
      .def_property_readonly("num_places", &cmrs_matrix::num_places)
      .def_property_readonly("height", [](const cmrs_matrix& m) { return m.options.height; })
      .def_property_readonly("packed", [](const cmrs_matrix& m) { return m.options.packed; })
      .def_property_readonly("sort_columns", [](const cmrs_matrix& m) { return m.options.sort_columns; })
      .def_property_readonly("modulo", [](const cmrs_matrix& m) { return m.options.modulo; })
      .def_property_readonly(
          "strip_ptr",
          [](const py::object& self) { return read_only(self.cast<const cmrs_matrix&>().strip_ptr, self); })
      .def_property_readonly(
          "words", [](const py::object& self) { return read_only(self.cast<const cmrs_matrix&>().words, self); })
      .def_property_readonly("indices", columns)
      .def_property_readonly("row_in_strip", rows_in_strip)
      .def_property_readonly("data",
                             [](const py::object& self) {
                               const auto& matrix = self.cast<const cmrs_matrix&>();
                               return read_only_values(matrix.data, matrix.dtype, self);
                             })
      .def_static(
          "from_csr",
          [](const csr_holder& matrix, int height, bool packed, bool sort_columns, int modulo) {
            const csr_view& view = with_values(matrix);
            const py::gil_scoped_release release;
            return to_cmrs(view, {height, packed, sort_columns, modulo});
          },
          py::arg("matrix"), py::arg("height"), py::arg("packed"), py::arg("sort_columns"), py::arg("modulo"))
      .def("to_csr", [](const cmrs_matrix& matrix) {
        csr_matrix result;
        {
          const py::gil_scoped_release release;
          result = to_csr(matrix);
        }
        return release_arrays(std::move(result));
      });
}

}  // namespace warploom::python
