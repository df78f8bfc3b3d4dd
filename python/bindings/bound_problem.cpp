#include "bound_problem.hpp"

#include "warploom/error.hpp"

namespace warploom::python {

const char* name_of(cache_state cache) { return cache == cache_state::warm ? "warm" : "cold"; }

cache_state parse_cache(const std::string& name) {
  if (name == "warm") return cache_state::warm;
  if (name == "cold") return cache_state::cold;
  throw error(error_kind::parameter, "cache", -1, "cache must be one of warm, cold, got '" + name + "'");
}

problem_facts facts_of(const bound_problem& bound) {
  const problem& given = bound.given;
  return py::make_tuple(name_of(given.op), py::make_tuple(given.num_rows(), given.num_cols()), given.nnz(),
                        numpy_dtype(given.dtype()), given.k, name_of(given.order), name_of(given.cache),
                        name_of(given.precision));
}

}  // namespace warploom::python
