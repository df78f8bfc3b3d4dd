// A problem as Python holds it, for all files that bind what works on problems.
#pragma once

#include <pybind11/typing.h>

#include <string>

#include "common.hpp"
#include "warploom/kernels/product.hpp"
#include "warploom/plan.hpp"

namespace warploom::python {

// A problem with the arrays that it looks at.
struct bound_problem {
  csr_holder matrix;  // of a matrix in host memory
  problem given;
  py::object owner;  // of the arrays of a matrix in GPU memory
};

const char* name_of(cache_state cache);
// Throws error_kind::parameter for what is no name of a state.
cache_state parse_cache(const std::string& name);

// All that a plan says of its problem: Python asks once, as each question takes microseconds where caches are cold.
using problem_facts = py::typing::Tuple<py::str, py::typing::Tuple<py::int_, py::int_>, py::int_, py::dtype, py::int_,
                                        py::str, py::str, py::str>;

problem_facts facts_of(const bound_problem& bound);

}  // namespace warploom::python
