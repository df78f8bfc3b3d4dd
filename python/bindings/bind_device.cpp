#include "common.hpp"

namespace warploom::python {

void bind_device(py::module_&) {}

}  // namespace warploom::python
