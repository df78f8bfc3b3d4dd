#include "common.hpp"

namespace warploom::python {

void bind_permutations(py::module_&) {}

}  // namespace warploom::python
