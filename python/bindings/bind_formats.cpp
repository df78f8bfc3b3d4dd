#include "common.hpp"

namespace warploom::python {

void bind_formats(py::module_&) {}

}  // namespace warploom::python
