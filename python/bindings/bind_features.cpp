#include "common.hpp"

namespace warploom::python {

void bind_features(py::module_&) {}

}  // namespace warploom::python
