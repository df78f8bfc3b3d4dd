// Models from settings and NumPy arrays, and their predictions.
#include <map>
#include <span>
#include <string>

#include "common.hpp"
#include "warploom/error.hpp"
#include "warploom/predictor.hpp"

namespace warploom::python {
namespace {

array_type type_of(const std::string& name, const py::array& array) {
  if (array.dtype().equal(py::dtype::of<std::int32_t>())) return array_type::int32;
  if (array.dtype().equal(py::dtype::of<float>())) return array_type::float32;
  if (array.dtype().equal(py::dtype::of<double>())) return array_type::float64;
  throw error(
      error_kind::profile, name, -1,
      name + ": the type is " + py::str(array.dtype()).cast<std::string>() + "; arrays are int32, float32 or float64");
}

array_view view_of(const std::string& name, const py::array& array) {
  constexpr int needed = int{py::array::c_style} | int{py::detail::npy_api::NPY_ARRAY_ALIGNED_};
  if ((array.flags() & needed) != needed) {
    throw error(error_kind::profile, name, -1, name + ": the array is not contiguous and aligned");
  }
  return {type_of(name, array), {array.shape(), array.shape() + array.ndim()}, array.data()};
}

std::unique_ptr<model> make(const std::string& kind, std::int64_t num_inputs,
                            std::map<std::string, std::string> settings,
                            const std::map<std::string, py::array>& arrays) {
  model_source source{kind, num_inputs, std::move(settings), {}};
  for (const auto& [name, array] : arrays) source.arrays.emplace(name, view_of(name, array));
  return make_model(source);
}

using rows = py::array_t<double, py::array::c_style>;

std::int64_t rows_of(const model& self, const rows& inputs) {
  if (inputs.ndim() != 2 || inputs.shape(1) != self.num_inputs()) {
    throw error(error_kind::shape, "inputs", -1,
                "the model takes rows of " + std::to_string(self.num_inputs()) + " inputs");
  }
  return inputs.shape(0);
}

std::span<double> span_of(rows& array) { return {array.mutable_data(), static_cast<std::size_t>(array.size())}; }

void predict_into(const model& self, const rows& inputs, std::span<double> outputs, std::span<double> spread) {
  const std::span<const double> given(inputs.data(), static_cast<std::size_t>(inputs.size()));
  const py::gil_scoped_release release;
  self.predict(given, outputs, spread);
}

rows predict(const model& self, const rows& inputs) {
  rows outputs({rows_of(self, inputs), self.num_outputs()});
  predict_into(self, inputs, span_of(outputs), {});
  return outputs;
}

py::tuple predict_with_spread(const model& self, const rows& inputs) {
  rows outputs({rows_of(self, inputs), self.num_outputs()});
  rows spread({rows_of(self, inputs), self.num_outputs()});
  predict_into(self, inputs, span_of(outputs), span_of(spread));
  return py::make_tuple(outputs, spread);
}

py::tuple kinds() {
  py::list names;
  for (const model_kind& kind : model_kinds()) names.append(kind.name);
  return py::tuple(names);
}

}  // namespace

void bind_predictor(py::module_& module) {
  module.def("model_kinds", &kinds);
  py::class_<model>(module, "Model", "A trained model, checked and laid out for prediction.")
      .def(py::init(&make), py::arg("kind"), py::arg("num_inputs"), py::arg("settings"), py::arg("arrays"))
      .def("predict", &predict, py::arg("inputs"))
      .def("predict_with_spread", &predict_with_spread, py::arg("inputs"))
      .def_property_readonly("num_inputs", &model::num_inputs)
      .def_property_readonly("num_outputs", &model::num_outputs)
      .def_property_readonly("has_spread", &model::has_spread);
}

}  // namespace warploom::python
