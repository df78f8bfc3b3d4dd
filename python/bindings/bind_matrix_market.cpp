// The lines of Matrix Market files.
#include <string_view>

#include "common.hpp"
#include "warploom/matrix_market.hpp"

namespace warploom::python {

void bind_matrix_market(py::module_& module) {
  py::class_<entry_lines>(module, "EntryLines",
                          "Checks the lines of entries of a Matrix Market file, piece after piece.")
      .def(py::init<int, bool>(), py::arg("num_indices"), py::arg("has_value"))
      .def(
          "check",
          [](entry_lines& lines, const py::bytes& piece) {
            const std::string_view text(piece);
            const py::gil_scoped_release release;
            return lines.check(text);
          },
          py::arg("piece"), "Return the number of the first bad line, from 0 over all pieces, or -1.")
      .def_property_readonly("entries", &entry_lines::entries, "Lines so far that have ended and are not empty.");
}

}  // namespace warploom::python
