// Kernels and candidates, as Python sees them.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common.hpp"
#include "warploom/candidate.hpp"
#include "warploom/error.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom::python {
namespace {

// Values of parameters as Python gives them: integers of any kind, nothing else.
parameter_values cast_parameters(const product_kernel& kernel, const py::dict& given) {
  parameter_values values;
  for (const auto& [key, value] : given) {
    const auto name = py::cast<std::string>(key);
    if (!PyIndex_Check(value.ptr())) {
      complete_parameters(kernel, {{name, kernel.parameters.empty() ? 0 : kernel.parameters[0].default_value}});
      throw error(error_kind::parameter, name, -1,
                  name + "=" + py::cast<std::string>(py::repr(value)) + " is not an integer");
    }
    values[name] = py::cast<int>(py::module_::import("operator").attr("index")(value));
  }
  return values;
}

py::tuple in_order(const product_kernel& kernel, const parameter_values& values) {
  py::tuple pairs(kernel.parameters.size());
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    const std::string& name = kernel.parameters[i].name;
    pairs[i] = py::make_tuple(name, values.at(name));
  }
  return pairs;
}

template <class Items, class Name>
py::tuple names_of(const Items& items, Name name) {
  py::list list;
  for (const auto& item : items) list.append(name(item));
  return py::tuple(list);
}

py::tuple devices_of(const product_kernel& kernel) {
  if (kernel.runs_on_cpu()) return py::make_tuple("cuda", "cpu");
  return py::make_tuple("cuda");
}

bool parse_device_kind(const std::string& kind) {
  if (kind == "cuda") return true;
  if (kind == "cpu") return false;
  throw error(error_kind::parameter, "device", -1, "device must be 'cuda' or 'cpu', got '" + kind + "'");
}

std::vector<candidate> enumerate(const std::string& op, const std::optional<std::string>& order,
                                 const std::string& device, const std::optional<std::string>& dtype,
                                 const std::string& precision) {
  candidate_filter filter;
  if (order) filter.order = parse_layout(*order);
  filter.on_gpu = parse_device_kind(device);
  if (dtype) filter.dtype = parse_value_type(*dtype);
  filter.precision = parse_precision(precision);
  return enumerate_candidates(parse_operation(op), filter);
}

}  // namespace

void bind_candidates(py::module_& module) {
  py::class_<parameter>(module, "Parameter", "One parameter of a kernel.")
      .def_readonly("name", &parameter::name)
      .def_readonly("default", &parameter::default_value)
      .def_property_readonly(
          "values", [](const parameter& p) { return py::tuple(py::cast(p.values)); }, "Accepted values.")
      .def_property_readonly(
          "tried", [](const parameter& p) { return py::tuple(py::cast(p.tried)); },
          "The values that selection by measurement tries on a GPU.")
      .def_readonly("on_cpu", &parameter::on_cpu, "Whether the CPU executor depends on it.")
      .def_readonly("meaning", &parameter::meaning);

  py::class_<product_kernel>(module, "Kernel", "One algorithm for one operation on one format.")
      .def_property_readonly("op", [](const product_kernel& k) { return name_of(k.op); })
      .def_readonly("format", &product_kernel::format)
      .def_readonly("name", &product_kernel::name)
      .def_readonly("summary", &product_kernel::summary)
      .def_readonly("source", &product_kernel::source, "The paper the idea is from, or \"own\".")
      .def_property_readonly(
          "layouts",
          [](const product_kernel& k) { return names_of(k.layouts, [](layout order) { return name_of(order); }); },
          "Layouts of the dense operands it works on: \"row\", \"column\".")
      .def_property_readonly("parameters",
                             [](const product_kernel& k) {
                               return names_of(k.parameters, [](const parameter& p) { return py::cast(p); });
                             })
      .def_property_readonly(
          "inputs",
          [](const product_kernel& k) {
            py::dict found;
            for (const kernel_input& input : k.inputs) found[py::str(input.name)] = input.meaning;
            return found;
          },
          "Arrays it takes beside the matrix: name and meaning.")
      .def_readonly("permutes", &product_kernel::permutes, "Whether a row permutation makes sense with it.")
      .def_readonly("reproducible", &product_kernel::reproducible, "Whether every run gives bitwise the same result.")
      .def_readonly("vendor", &product_kernel::vendor, "Whether it is the vendor's library.")
      .def_readonly("compared_fully", &product_kernel::compared_fully,
                    "Whether tables compare every setting, not only the default one.")
      .def_readonly("for_large", &product_kernel::for_large,
                    "Whether plans compare it with what is predicted for a matrix of 10^6 nonzeros and more where "
                    "models have seen none of the size.")
      .def_property_readonly("devices", &devices_of, "Where it runs: \"cuda\", \"cpu\".")
      .def_property_readonly(
          "dtypes",
          [](const product_kernel& k) { return names_of(k.dtypes, [](value_type type) { return name_of(type); }); },
          "Value types it works on.")
      .def_property_readonly(
          "precision", [](const product_kernel& k) { return name_of(k.precision); },
          "\"full\", or \"tf32\": it rounds float32 to TF32, and is considered only where that is asked for.")
      .def_readonly("from_device", &product_kernel::from_device,
                    "Whether preparing it on a GPU starts from the CSR matrix in the memory of that GPU.")
      .def(
          "complete",
          [](const product_kernel& k, const py::dict& given) {
            const parameter_values complete = complete_parameters(k, cast_parameters(k, given));
            return py::dict(in_order(k, complete));
          },
          py::arg("given"), "All parameters, defaults filled in.")
      .def("__eq__",
           [](const product_kernel& a, const py::object& b) {
             return py::isinstance<product_kernel>(b) && &a == &b.cast<const product_kernel&>();
           })
      .def("__hash__", [](const product_kernel& k) { return reinterpret_cast<std::uintptr_t>(&k) >> 4; })
      .def("__repr__",
           [](const product_kernel& k) { return std::string("<Kernel ") + name_of(k.op) + " " + k.label() + ">"; });
  module.def(
      "kernels",
      [](const std::string& op) {
        py::list found;
        for (const product_kernel& k : kernels(parse_operation(op))) {
          found.append(py::cast(k, py::return_value_policy::reference));
        }
        return py::tuple(found);
      },
      py::arg("op"), "The registered kernels of an operation.");
  module.def(
      "find_kernel",
      [](const std::string& op, const std::string& format, const std::string& name) -> const product_kernel& {
        return find_kernel(parse_operation(op), format, name);
      },
      py::arg("op"), py::arg("format"), py::arg("name"), py::return_value_policy::reference,
      "The kernel of that name.");

  py::class_<candidate>(module, "Candidate",
                        "Everything needed to run a product, except the matrix. Compares and hashes by name.")
      .def_static(
          "make",
          [](const product_kernel& kernel, const std::string& permutation, const py::object& parameters) {
            const auto given = parameters.is_none() ? py::dict() : py::dict(parameters);
            return make_candidate(kernel, permutation, cast_parameters(kernel, given));
          },
          py::arg("kernel"), py::arg("permutation") = "none", py::arg("parameters") = py::none(),
          "Complete the parameters.")
      .def_property_readonly(
          "kernel", [](const candidate& c) -> const product_kernel& { return *c.kernel; },
          py::return_value_policy::reference)
      .def_readonly("permutation", &candidate::permutation)
      .def_property_readonly(
          "parameters", [](const candidate& c) { return in_order(*c.kernel, c.parameters); },
          "All of them, as pairs of name and value in the kernel's order.")
      .def_property_readonly("name", &candidate::name, "The stable name.")
      .def_property_readonly("has_defaults", &candidate::has_default_parameters,
                             "Whether all parameters are at their default.")
      .def("__eq__",
           [](const candidate& a, const py::object& b) {
             return py::isinstance<candidate>(b) && a == b.cast<const candidate&>();
           })
      .def("__hash__", [](const candidate& c) { return std::hash<std::string>{}(c.name()); })
      .def("__str__", &candidate::name)
      .def("__repr__", [](const candidate& c) { return "<Candidate " + c.name() + ">"; });
  module.def(
      "parse_candidate", [](const std::string& name) { return parse_candidate(name); }, py::arg("name"),
      "The candidate of that name.");
  module.def("enumerate_candidates", &enumerate, py::arg("op"), py::arg("layout").none(true), py::arg("device"),
             py::arg("dtype").none(true), py::arg("precision") = "full",
             "Every tried setting in the caller's row order, then every row permutation with default parameters.");
  module.def(
      "matches", [](const std::string& name, const name_patterns& patterns) { return matches(name, patterns); },
      py::arg("name"), py::arg("patterns").none(true), "Whether a name matches one of the shell-style patterns.");
  module.def(
      "baseline_kernel",
      [](const std::string& op, const std::string& order) -> const product_kernel& {
        return baseline_kernel(parse_operation(op), parse_layout(order));
      },
      py::arg("op"), py::arg("layout"), py::return_value_policy::reference,
      "The kernel that plain CSR means: what speedups are over.");
}

}  // namespace warploom::python
