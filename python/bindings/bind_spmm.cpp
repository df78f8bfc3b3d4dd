#include "common.hpp"

namespace warploom::python {

void bind_spmm(py::module_&) {}

}  // namespace warploom::python
