// Profiles: read in C++, put together in Python by what trains models.
#include <pybind11/stl/filesystem.h>
#include <pybind11/typing.h>

#include <cstdlib>
#include <map>
#include <string>

#include "models.hpp"
#include "predictor/safetensors.hpp"
#include "warploom/error.hpp"
#include "warploom/profile.hpp"

namespace warploom::python {
namespace {

py::object to_python(const json& value) {
  if (const bool* const truth = value.as_bool()) return py::bool_(*truth);
  if (const std::int64_t* const integer = value.as_integer()) return py::int_(*integer);
  if (const double* const real = value.as_real()) return py::float_(*real);
  if (const std::string* const text = value.as_string()) return py::str(*text);
  if (const json::array* const values = value.as_array()) {
    py::list list;
    for (const json& one : *values) list.append(to_python(one));
    return list;
  }
  if (const json::object* const members = value.as_object()) {
    py::dict dict;
    for (const auto& [name, one] : *members) dict[py::str(name)] = to_python(one);
    return dict;
  }
  return py::none();
}

using models = std::map<std::string, std::shared_ptr<trained_model>>;

std::shared_ptr<profile> make(std::string gpu, std::pair<int, int> capability, std::string cuda, const models& given,
                              std::map<std::string, std::int64_t> geometry, std::string data_hash,
                              const std::string& metrics) {
  profile made{std::move(gpu),
               {capability.first, capability.second},
               std::move(cuda),
               std::move(data_hash),
               std::move(geometry),
               parse_json(metrics),
               {}};
  for (const auto& [name, model] : given) made.models.emplace(name, model);
  return std::make_shared<profile>(std::move(made));
}

py::dict models_of(const profile& self) {
  py::dict found;
  for (const auto& [name, model] : self.models) {
    found[py::str(name)] = py::cast(std::const_pointer_cast<trained_model>(model));
  }
  return found;
}

std::shared_ptr<profile> load(const std::filesystem::path& path) {
  const py::gil_scoped_release release;
  return std::const_pointer_cast<profile>(load_profile(path));
}

// The GPU, the path and the note of what was found, or None; and what is wrong with the files that were left out.
py::tuple find(const std::string& gpu, std::optional<std::pair<int, int>> capability,
               const std::vector<std::filesystem::path>& folders) {
  std::vector<std::string> left_out;
  std::optional<compute_capability> wanted;
  if (capability) wanted = compute_capability{capability->first, capability->second};
  const std::optional<found_profile> found = find_profile(gpu, wanted, folders, left_out);
  if (!found) return py::make_tuple(py::none(), left_out);
  return py::make_tuple(py::make_tuple(std::const_pointer_cast<profile>(found->loaded), found->path, found->note),
                        left_out);
}

py::tuple list(const std::vector<std::filesystem::path>& folders) {
  std::vector<std::string> left_out;
  py::list gpus;
  for (const profile_file& file : list_profiles(folders, left_out)) gpus.append(file.gpu);
  return py::make_tuple(gpus, left_out);
}

// As Python's os.environ has them, which takes several times as long to say so.
py::typing::Tuple<py::typing::Optional<py::str>, py::ellipsis> environment(
    const py::typing::Tuple<py::str, py::ellipsis>& names) {
  py::tuple values(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const char* const value = std::getenv(py::cast<std::string>(names[i]).c_str());
    values[i] =
        value == nullptr ? py::object(py::none()) : py::reinterpret_steal<py::object>(PyUnicode_DecodeFSDefault(value));
  }
  return values;
}

py::tuple read(const std::filesystem::path& path) {
  const safetensors file = read_safetensors(path);
  py::dict arrays;
  for (const auto& [name, array] : file.arrays) arrays[py::str(name)] = to_numpy(array);
  return py::make_tuple(file.metadata, arrays);
}

}  // namespace

void bind_profile(py::module_& module) {
  py::class_<profile, std::shared_ptr<profile>>(module, "Profile", "The trained models of one GPU.")
      .def(py::init(&make), py::arg("gpu"), py::arg("compute_capability"), py::arg("cuda"), py::arg("models"),
           py::arg("geometry"), py::arg("data_hash"), py::arg("metrics"), "`metrics` is a text in JSON.")
      .def_readonly("gpu", &profile::gpu)
      .def_property_readonly(
          "compute_capability",
          [](const profile& self) { return std::pair(self.capability.major, self.capability.minor); })
      .def_readonly("cuda", &profile::cuda)
      .def_property_readonly("models", &models_of)
      .def_readonly("geometry", &profile::geometry)
      .def_readonly("data_hash", &profile::data_hash)
      .def_property_readonly("metrics", [](const profile& self) { return to_python(self.metrics); });
  module.def("load_profile", &load, py::arg("path"));
  module.def("find_profile", &find, py::arg("gpu"), py::arg("compute_capability").none(true), py::arg("folders"),
             "The profile for a GPU with its path and a note, or None; and what is wrong with files left out.");
  module.def("list_profiles", &list, py::arg("folders"),
             "The GPUs of all profiles; and what is wrong with files left out.");
  module.def("environment", &environment, py::arg("names"), "Variables of the environment; None: not set.");
  module.def("read_safetensors", &read, py::arg("path"), "Metadata and arrays of a file.");
}

}  // namespace warploom::python
