// Models from settings and NumPy arrays, and their predictions.
#include <pybind11/typing.h>

#include <map>
#include <span>
#include <string>

#include "models.hpp"
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

using texts = py::typing::Iterable<py::str>;

// What is no text becomes a name that no model accepts.
std::vector<std::string> names_of(const texts& given) {
  std::vector<std::string> names;
  for (const py::handle name : given) names.push_back(py::isinstance<py::str>(name) ? name.cast<std::string>() : "");
  return names;
}

using matrix = py::array_t<double, int{py::array::c_style} | int{py::array::forcecast}>;

stored_vectors vectors_of(const matrix& inputs, const matrix& outputs) {
  return {share("check", inputs), share("check", outputs)};
}

std::shared_ptr<trained_model> make(const std::string& kind, const texts& inputs, const texts& outputs,
                                    std::map<std::string, std::string> settings,
                                    const std::map<std::string, py::array>& arrays) {
  std::map<std::string, shared_array> shared;
  for (const auto& [name, array] : arrays) shared.emplace(name, share(name, array));
  return std::make_shared<trained_model>(kind, names_of(inputs), names_of(outputs), std::move(settings),
                                         std::move(shared), std::nullopt);
}

void verify(const trained_model& self, const matrix& inputs, const matrix& outputs) {
  self.verify(vectors_of(inputs, outputs));
}

py::dict arrays_of(const trained_model& self) {
  py::dict arrays;
  for (const auto& [name, array] : self.arrays()) arrays[py::str(name)] = to_numpy(array);
  return arrays;
}

py::object check_of(const trained_model& self) {
  if (!self.check()) return py::none();
  return py::make_tuple(to_numpy(self.check()->inputs), to_numpy(self.check()->outputs));
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

rows predict(const trained_model& self, const rows& inputs) {
  const model& evaluated = self.evaluated();
  rows outputs({rows_of(evaluated, inputs), evaluated.num_outputs()});
  predict_into(evaluated, inputs, span_of(outputs), {});
  return outputs;
}

py::tuple predict_with_spread(const trained_model& self, const rows& inputs) {
  const model& evaluated = self.evaluated();
  rows outputs({rows_of(evaluated, inputs), evaluated.num_outputs()});
  rows spread({rows_of(evaluated, inputs), evaluated.num_outputs()});
  predict_into(evaluated, inputs, span_of(outputs), span_of(spread));
  return py::make_tuple(outputs, spread);
}

py::tuple kinds() {
  py::list names;
  for (const model_kind& kind : model_kinds()) names.append(kind.name);
  return py::tuple(names);
}

}  // namespace

py::array to_numpy(const shared_array& array) {
  const py::dtype dtype = array.view.type == array_type::float64   ? py::dtype::of<double>()
                          : array.view.type == array_type::float32 ? py::dtype::of<float>()
                                                                   : py::dtype::of<std::int32_t>();
  auto owner = std::make_unique<std::shared_ptr<const void>>(array.owner);
  const py::capsule release(owner.release(), [](void* p) { delete static_cast<std::shared_ptr<const void>*>(p); });
  py::array seen(dtype, array.view.shape, {}, array.view.data, release);
  seen.attr("flags").attr("writeable") = false;
  return seen;
}

shared_array share(const std::string& name, const py::array& array) {
  constexpr int needed = int{py::array::c_style} | int{py::detail::npy_api::NPY_ARRAY_ALIGNED_};
  if ((array.flags() & needed) != needed) {
    throw error(error_kind::profile, name, -1, name + ": the array is not contiguous and aligned");
  }
  const array_view view(type_of(name, array), {array.shape(), array.shape() + array.ndim()}, array.data());
  const auto release = [](const py::array* kept) {
    const py::gil_scoped_acquire acquire;
    delete kept;
  };
  return {view, std::shared_ptr<const py::array>(new py::array(array), release)};
}

void bind_predictor(py::module_& module) {
  module.def("model_kinds", &kinds);
  module.attr("MAX_STORED_VECTORS") = max_stored_vectors;
  py::class_<trained_model, std::shared_ptr<trained_model>>(module, "Model",
                                                            "A trained model, checked and laid out for prediction.")
      .def(py::init(&make), py::arg("kind"), py::arg("inputs"), py::arg("outputs"), py::arg("settings"),
           py::arg("arrays"))
      .def("predict", &predict, py::arg("inputs"))
      .def("predict_with_spread", &predict_with_spread, py::arg("inputs"))
      .def("verify", &verify, py::arg("inputs"), py::arg("outputs"), "Compute stored vectors, and compare.")
      .def_property_readonly("kind", &trained_model::kind)
      .def_property_readonly("inputs", [](const trained_model& self) { return py::tuple(py::cast(self.inputs())); })
      .def_property_readonly("outputs", [](const trained_model& self) { return py::tuple(py::cast(self.outputs())); })
      .def_property_readonly("settings", &trained_model::settings)
      .def_property_readonly("arrays", &arrays_of)
      .def_property_readonly("check", &check_of, "Stored inputs and outputs, or None.")
      .def_property_readonly("has_spread", [](const trained_model& self) { return self.evaluated().has_spread(); });
}

}  // namespace warploom::python
