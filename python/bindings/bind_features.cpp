#include <string>

#include "common.hpp"
#include "warploom/features.hpp"

namespace warploom::python {
namespace {

py::tuple feature_set_names() {
  py::list names;
  for (const feature_set& set : feature_sets()) names.append(set.name);
  return py::tuple(names);
}

py::tuple feature_names(const std::string& set_name) {
  py::list names;
  for (const char* name : find_feature_set(set_name).names) names.append(name);
  return py::tuple(names);
}

py::array_t<double> compute_features(const std::string& set_name, const csr_holder& matrix, int warps, int threads,
                                     int elements_per_cache_line) {
  const feature_set& set = find_feature_set(set_name);
  const geometry shape = make_geometry(warps, threads, elements_per_cache_line);
  std::vector<double> values(set.names.size());
  {
    const py::gil_scoped_release release;
    set.compute(matrix.view, shape, values.data());
  }
  return to_numpy(std::move(values));
}

}  // namespace

void bind_features(py::module_& module) {
  const geometry usual;
  module.def("feature_set_names", &feature_set_names);
  module.def("feature_names", &feature_names, py::arg("name"));
  module.def("compute_features", &compute_features, py::arg("name"), py::arg("matrix"), py::arg("warps") = usual.warps,
             py::arg("threads") = usual.threads, py::arg("elements_per_cache_line") = usual.elements_per_cache_line);
}

}  // namespace warploom::python
