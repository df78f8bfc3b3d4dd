// Matrices in any format of the registry: what a format shows of itself is found by name.
#include <cstddef>
#include <map>
#include <string>

#include "common.hpp"
#include "warploom/device.hpp"
#include "warploom/error.hpp"
#include "warploom/formats/format.hpp"

namespace warploom::python {
namespace {

// ---- Options

template <class Value>
option_value cast_option(const format_option& option, py::handle value, const char* type) {
  try {
    return value.cast<Value>();
  } catch (const py::cast_error&) {
    throw py::type_error(option.name + " must be " + type + ", got " + py::cast<std::string>(py::repr(value)));
  }
}

option_value parse_option(const format_option& option, py::handle value) {
  if (std::holds_alternative<bool>(option.default_value)) return cast_option<bool>(option, value, "a bool");
  if (std::holds_alternative<double>(option.default_value)) return cast_option<double>(option, value, "a number");
  const bool may_be_none = std::holds_alternative<std::monostate>(option.default_value);
  if (may_be_none && value.is_none()) return {};
  return cast_option<std::int64_t>(option, value, may_be_none ? "an integer or None" : "an integer");
}

std::map<std::string, option_value> parse_options(const format_description& format, const py::dict& given) {
  std::map<std::string, option_value> options;
  for (const auto& [key, value] : given) {
    const auto name = py::cast<std::string>(key);
    options[name];  // an unknown one is for the core to refuse
    for (const format_option& option : format.options) {
      if (option.name == name) options[name] = parse_option(option, value);
    }
  }
  return options;
}

py::object to_python(const option_value& value) {
  return std::visit([](const auto& v) -> py::object { return py::cast(v); }, value);
}

py::list describe_formats() {
  py::list list;
  for (const format_description& format : formats()) {
    py::list options;
    for (const format_option& option : format.options) {
      py::list tested;
      for (const option_value& value : option.tested) tested.append(to_python(value));
      options.append(py::dict(py::arg("name") = option.name, py::arg("default") = to_python(option.default_value),
                              py::arg("tested") = tested));
    }
    list.append(py::dict(py::arg("name") = format.name, py::arg("options") = options,
                         py::arg("adds_repeated") = format.adds_repeated,
                         py::arg("on_gpu") = format.from_csr_on_gpu != nullptr));
  }
  return list;
}

// ---- Arrays

py::dtype dtype_of(element_type type) {
  switch (type) {
    case element_type::uint8:
      return py::dtype::of<std::uint8_t>();
    case element_type::uint16:
      return py::dtype::of<std::uint16_t>();
    case element_type::uint32:
      return py::dtype::of<std::uint32_t>();
    case element_type::uint64:
      return py::dtype::of<std::uint64_t>();
    case element_type::int32:
      return py::dtype::of<std::int32_t>();
    case element_type::int64:
      return py::dtype::of<std::int64_t>();
    case element_type::float16:
      return numpy_dtype(value_type::float16);
    case element_type::bfloat16:
      return numpy_dtype(value_type::bfloat16);
    case element_type::float32:
      return numpy_dtype(value_type::float32);
    case element_type::float64:
      return numpy_dtype(value_type::float64);
  }
  throw py::type_error("unknown type of elements");
}

// A view without a copy that keeps the memory's owner alive: `matrix`, or whoever else owns it. Read-only: kernels
// trust that the arrays stay a matrix.
py::array read_only(const stored_array& view, const py::object& matrix) {
  py::object owner = matrix;
  if (view.owner) {
    auto held = std::make_unique<std::shared_ptr<const void>>(view.owner);
    owner = py::capsule(held.release(), [](void* p) { delete static_cast<std::shared_ptr<const void>*>(p); });
  }
  std::vector<py::ssize_t> shape{static_cast<py::ssize_t>(view.size)};
  if (view.columns > 0) shape = {static_cast<py::ssize_t>(view.size / view.columns), view.columns};
  py::array array(dtype_of(view.type), std::move(shape), {}, view.data, owner);
  array.attr("flags").attr("writeable") = false;
  return array;
}

// The storage of values handed to NumPy without a copy.
py::array values_to_numpy(std::vector<std::byte> bytes, value_type type) {
  auto owner = std::make_unique<std::vector<std::byte>>(std::move(bytes));
  const void* first = owner->data();
  const auto size = static_cast<py::ssize_t>(owner->size() / size_of(type));
  const py::capsule release(owner.release(), [](void* p) { delete static_cast<std::vector<std::byte>*>(p); });
  return py::array(numpy_dtype(type), {size}, {}, first, release);
}

// (data, indices, indptr), as SciPy takes them.
py::tuple to_csr_arrays(const stored_matrix& matrix) {
  csr_matrix csr;
  {
    const py::gil_scoped_release release;
    csr = matrix.to_csr();
  }
  py::array data = values_to_numpy(std::move(csr.data), csr.dtype);
  return py::make_tuple(std::move(data), to_numpy(std::move(csr.indices)), to_numpy(std::move(csr.indptr)));
}

// ---- Fields

field_value find_field(const stored_matrix& matrix, const std::string& name) {
  for (format_field& field : matrix.fields()) {
    if (field.name == name) return std::move(field.value);
  }
  throw py::key_error(name);
}

py::array find_array(const py::object& self, const std::string& name) {
  const field_value value = find_field(self.cast<const stored_matrix&>(), name);
  if (const auto* array = std::get_if<stored_array>(&value)) return read_only(*array, self);
  if (const auto* make = std::get_if<made_array>(&value)) {
    stored_array made;
    {
      const py::gil_scoped_release release;
      made = (*make)();
    }
    return read_only(made, self);
  }
  throw py::key_error(name + " is no array");
}

py::object find_scalar(const stored_matrix& matrix, const std::string& name) {
  return std::visit(
      [&](const auto& value) -> py::object {
        using type = std::decay_t<decltype(value)>;
        if constexpr (std::is_arithmetic_v<type> || std::is_same_v<type, std::monostate>) return py::cast(value);
        throw py::key_error(name + " is no number");
      },
      find_field(matrix, name));
}

py::dict find_counts(const stored_matrix& matrix, const std::string& name) {
  const field_value value = find_field(matrix, name);
  const auto* make = std::get_if<made_counts>(&value);
  if (make == nullptr) throw py::key_error(name + " is no list of counts");
  py::dict result;
  for (const auto& [label, counts] : (*make)()) result[py::str(label)] = py::tuple(py::cast(counts));
  return result;
}

std::shared_ptr<const stored_matrix> find_part(const stored_matrix& matrix, const std::string& name) {
  const field_value value = find_field(matrix, name);
  if (const auto* part = std::get_if<std::shared_ptr<const stored_matrix>>(&value)) return *part;
  throw py::key_error(name + " is no part");
}

// The stored arrays in their order, those of parts under the name of the part as well.
void collect_arrays(const py::object& self, const std::string& prefix, py::dict& result) {
  for (const format_field& field : self.cast<const stored_matrix&>().fields()) {
    const py::str name(prefix + field.name);
    if (const auto* array = std::get_if<stored_array>(&field.value)) result[name] = read_only(*array, self);
    if (std::holds_alternative<std::shared_ptr<const stored_matrix>>(field.value)) {
      collect_arrays(self.attr("part")(field.name), prefix + field.name + ".", result);
    }
  }
}

std::shared_ptr<stored_matrix> store_in_format(const std::string& name, const csr_holder& matrix,
                                               const py::dict& given) {
  const format_description& format = find_format(name);
  const std::map<std::string, option_value> options = parse_options(format, given);
  // A format stores values, so a view of a pattern alone will not do.
  if (!matrix.data) throw error(error_kind::invalid_matrix, "data", -1, "the matrix has no values, only a pattern");
  const py::gil_scoped_release release;
  return store(format, matrix.view, options);
}

std::shared_ptr<stored_matrix> convert_on_gpu(const std::string& name, const resident_csr& matrix,
                                              const py::dict& given) {
  const format_description& format = find_format(name);
  const std::map<std::string, option_value> options = parse_options(format, given);
  if (!matrix.matrix) throw error(error_kind::parameter, "matrix", -1, "the matrix is not in GPU memory");
  const py::gil_scoped_release release;
  const device_guard guard(matrix.device);
  return store_on_gpu(format, *matrix.matrix, options);
}

}  // namespace

void bind_formats(py::module_& module) {
  module.def("formats", &describe_formats, "The registry of formats: names, options, whether made on a GPU.");
  py::class_<stored_matrix, std::shared_ptr<stored_matrix>>(module, "StoredMatrix", "A matrix in one of the formats.")
      .def_property_readonly("shape", [](const stored_matrix& m) { return py::make_tuple(m.num_rows(), m.num_cols()); })
      .def_property_readonly("dtype", [](const stored_matrix& m) { return numpy_dtype(m.dtype()); })
      .def_property_readonly("nnz", &stored_matrix::nnz)
      .def_property_readonly("places", &stored_matrix::places)
      .def_property_readonly("nbytes", &stored_matrix::bytes)
      .def("array", &find_array, py::arg("name"), "An array, read-only.")
      .def("scalar", &find_scalar, py::arg("name"))
      .def("counts", &find_counts, py::arg("name"), "Numbers by name.")
      .def("part", &find_part, py::arg("name"), py::keep_alive<0, 1>(), "A part that is stored in another format.")
      .def(
          "arrays",
          [](const py::object& self) {
            py::dict result;
            collect_arrays(self, "", result);
            return result;
          },
          "The arrays that are stored, as they lie in memory.")
      .def("to_csr", &to_csr_arrays, "Data, indices and indptr.");
  module.def("store", &store_in_format, py::arg("format"), py::arg("matrix"), py::arg("options"),
             "Store a matrix in a format, with the options that are given.");
  module.def("convert_on_gpu", &convert_on_gpu, py::arg("format"), py::arg("matrix"), py::arg("options"),
             "Store a matrix in a format that is made on the GPU where the matrix is.");
}

}  // namespace warploom::python
