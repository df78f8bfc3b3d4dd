// What models read, of arrays of many matrices: for training.
#include <map>
#include <string>

#include "common.hpp"
#include "planner/model_inputs.hpp"
#include "warploom/error.hpp"

namespace warploom::python {
namespace {

using numbers = py::array_t<double, int{py::array::c_style} | int{py::array::forcecast}>;
using features_by_name = std::map<std::string, numbers>;

// The values of a feature, one for each of n matrices; n < 0 takes what there is.
const double* values_of(const features_by_name& features, const char* name, py::ssize_t& n) {
  const auto found = features.find(name);
  if (found == features.end()) {
    throw error(error_kind::parameter, "features", -1, std::string("the features lack '") + name + "'");
  }
  const numbers& values = found->second;
  if (n < 0) n = values.size();
  if (values.ndim() != 1 || values.size() != n) {
    throw error(error_kind::shape, "features", -1, std::string(name) + " is not one value for each matrix");
  }
  return values.data();
}

py::array_t<double> inputs_of(const features_by_name& features, const numbers& k,
                              const std::vector<std::string>& names) {
  py::ssize_t n = k.size();
  struct column {
    const model_input* input;
    const double* first;
    const double* second;
  };
  std::vector<column> columns;
  for (const std::string& name : names) {
    const model_input& input = find_model_input(name);
    const auto values = [&](const feature_place& place) {
      return place.name ? values_of(features, place.name, n) : nullptr;
    };
    columns.push_back({&input, values(input.first), values(input.second)});
  }
  const auto width = static_cast<py::ssize_t>(columns.size());
  py::array_t<double> made({n, width});
  double* row = made.mutable_data();
  for (py::ssize_t i = 0; i < n; ++i, row += width) {
    for (py::ssize_t j = 0; j < width; ++j) {
      const auto& [input, first, second] = columns[j];
      row[j] = input->formula(first ? first[i] : 0, second ? second[i] : 0, k.data()[i]);
    }
  }
  return made;
}

py::array_t<double> terms_of(const features_by_name& features) {
  py::ssize_t n = -1;
  const double* const rows = values_of(features, "spmv_num_rows", n);
  const double* const cols = values_of(features, "spmv_num_cols", n);
  const double* const nnz = values_of(features, "spmv_nnz", n);
  const double* const longest_row = values_of(features, "spmv_nnz_per_row_max", n);
  py::array_t<double> made({n, static_cast<py::ssize_t>(preparation_inputs().size())});
  double* value = made.mutable_data();
  for (py::ssize_t i = 0; i < n; ++i) {
    for (const preparation_input& term : preparation_inputs()) {
      *value++ = term.formula(rows[i], cols[i], nnz[i], longest_row[i]);
    }
  }
  return made;
}

template <class Rows>
py::tuple names_of(const Rows& rows) {
  py::list names;
  for (const auto& row : rows) names.append(row.name);
  return py::tuple(names);
}

template <class Condition>
py::tuple names_where(Condition condition) {
  py::list names;
  for (const model_input& input : model_inputs()) {
    if (condition(input)) names.append(input.name);
  }
  return py::tuple(names);
}

bool needs_spmm(const model_input& input) { return input.needs(&matrix_features::spmm); }
bool needs_column_vectors(const model_input& input) { return input.needs(&matrix_features::column_vectors); }
bool needs_locality(const model_input& input) { return input.needs(&matrix_features::locality); }
bool needs_row_lengths_only(const model_input& input) {
  return !needs_spmm(input) && !needs_column_vectors(input) && !needs_locality(input);
}

py::dict sizes() {
  py::dict features;
  for (const problem_size& size : problem_sizes()) {
    features[size.name] = size.feature.name ? py::object(py::str(size.feature.name)) : py::none();
  }
  return features;
}

}  // namespace

void bind_model_inputs(py::module_& module) {
  module.attr("REFERENCE_OUTPUT") = reference_output;
  module.attr("LOSS_OUTPUT") = loss_output;
  module.attr("NUM_NEAR") = num_near;
  module.attr("NEARNESS") = nearness;
  module.def("model_input_names", [] { return names_of(model_inputs()); });
  module.def(
      "spmv_input_names", [] { return names_where(needs_row_lengths_only); },
      "Those that need the features of SpMV only.");
  module.def(
      "column_vector_input_names", [] { return names_where(needs_column_vectors); },
      "Those that need features of column vectors.");
  module.def(
      "locality_input_names", [] { return names_where(needs_locality); }, "Those that need features of locality.");
  module.def("preparation_input_names", [] { return names_of(preparation_inputs()); });
  module.def("model_inputs", &inputs_of, py::arg("features"), py::arg("k"), py::arg("names"),
             "What models read of n matrices: n rows, a column for each name.");
  module.def("preparation_inputs", &terms_of, py::arg("features"));
  module.def("problem_sizes", &sizes, "Names of sizes, with the feature that each is; None for k.");
  module.def("roofline_us", py::vectorize(&roofline_us), py::arg("rows"), py::arg("cols"), py::arg("nnz"), py::arg("k"),
             py::arg("itemsize"));
  module.def("compress", py::vectorize(&compress), py::arg("log_ratio"));
  module.def("expand", py::vectorize(&expand), py::arg("compressed"));
}

}  // namespace warploom::python
