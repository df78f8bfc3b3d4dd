#include "csr_tensors.hpp"

#include <array>
#include <atomic>
#include <limits>

#include "dlpack.hpp"
#include "made_once.hpp"

namespace warploom::python {
namespace {

// Never changed and never freed: other threads may be reading it. Types are kept alive by their modules.
struct known_type {
  PyTypeObject* type;
  const dlpack::exchange_api* exchange;  // may be null
  PyObject* sparse_csr;                  // the layout
};

const known_type* find_tensor_type(py::handle object) {
  static std::atomic<const known_type*> latest{nullptr};
  PyTypeObject* const type = Py_TYPE(object.ptr());
  const known_type* const known = latest.load(std::memory_order_acquire);
  if (known != nullptr && type == known->type) return known;
  const auto torch = py::reinterpret_steal<py::object>(PyImport_GetModule(py::str("torch").ptr()));
  if (!torch || !py::getattr(torch, "Tensor", py::none()).is(py::handle(reinterpret_cast<PyObject*>(type)))) {
    PyErr_Clear();
    return nullptr;
  }
  const dlpack::exchange_api* const exchange = dlpack::exchange_of(reinterpret_cast<PyObject*>(type));
  py::object sparse_csr = torch.attr("sparse_csr");
  return latest = new known_type{type, exchange, sparse_csr.release().ptr()};
}

// Of a tensor; null if there is none.
const dlpack::exchange_api* exchange_of(py::handle object) {
  const known_type* const tensor = find_tensor_type(object);
  return tensor == nullptr ? nullptr : tensor->exchange;
}

// What is asked of matrices and tensors.
struct asked_names {
  py::str layout = interned("layout"), shape = interned("shape");
  py::str crow_indices = interned("crow_indices"), col_indices = interned("col_indices"), values = interned("values");
  py::str indptr = interned("indptr"), indices = interned("indices"), data = interned("data");
  py::str is_neg = interned("is_neg");

  static py::str interned(const char* name) { return py::reinterpret_steal<py::str>(PyUnicode_InternFromString(name)); }
};

const asked_names& names() {
  static made_once<asked_names> made;
  return made.get([] { return asked_names(); });
}

// Null, and no error, where Python raises one: what is wrong is said elsewhere.
py::object checked(PyObject* found) {
  if (found == nullptr) PyErr_Clear();
  return py::reinterpret_steal<py::object>(found);
}

py::object get(py::handle of, const py::str& name) { return checked(PyObject_GetAttr(of.ptr(), name.ptr())); }

py::object call(py::handle of, const py::str& method) {
  return checked(PyObject_CallMethodNoArgs(of.ptr(), method.ptr()));
}

struct matrix_parts {
  py::object indptr, indices, values, shape;
};

// Parts that are missing are null.
matrix_parts parts_of(py::handle A) {
  const asked_names& of = names();
  if (const known_type* const tensor = find_tensor_type(A)) {
    if (get(A, of.layout).ptr() != tensor->sparse_csr) return {};
    return {call(A, of.crow_indices), call(A, of.col_indices), call(A, of.values), get(A, of.shape)};
  }
  static made_once<py::object> csr_class;
  const py::object& arrays = csr_class.get([] { return py::module_::import("warploom._csr").attr("CSR"); });
  if (PyObject_IsInstance(A.ptr(), arrays.ptr()) != 1) return {};
  return {get(A, of.indptr), get(A, of.indices), get(A, of.data), get(A, of.shape)};
}

// Sizes that rows and columns can be numbered with.
std::optional<std::array<std::int64_t, 2>> two_sizes(const py::object& shape) {
  if (!shape || !PyTuple_Check(shape.ptr()) || PyTuple_GET_SIZE(shape.ptr()) != 2) return std::nullopt;
  std::array<std::int64_t, 2> sizes{};
  for (int i = 0; i < 2; ++i) {
    sizes[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape.ptr(), i));
    if (sizes[i] == -1 && PyErr_Occurred()) PyErr_Clear();
    if (sizes[i] < 0 || sizes[i] > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
  }
  return sizes;
}

std::optional<dlpack::tensor> view_vector(const dlpack::exchange_api& exchange, py::handle object, int device) {
  dlpack::tensor seen;
  if (exchange.view(object.ptr(), &seen) != 0) {
    PyErr_Clear();  // what is wrong is said elsewhere
    return std::nullopt;
  }
  const bool on_device = seen.device.type == dlpack::device_type::cuda && seen.device.number == device;
  if (!on_device || seen.ndim != 1 || seen.dtype.lanes != 1) return std::nullopt;
  const bool dense = seen.shape[0] <= 1 || (seen.strides != nullptr && seen.strides[0] == 1);
  if (!dense || (seen.data == nullptr && seen.shape[0] > 0)) return std::nullopt;
  return seen;
}

const void* data_of(const dlpack::tensor& seen) { return static_cast<const char*>(seen.data) + seen.byte_offset; }

bool is_integer(const dlpack::tensor& seen) {
  return seen.dtype.code == dlpack::signed_integer && (seen.dtype.bits == 32 || seen.dtype.bits == 64);
}

std::optional<value_type> value_type_of(const dlpack::tensor& seen) {
  if (seen.dtype.code == dlpack::brain_floating_point && seen.dtype.bits == 16) return value_type::bfloat16;
  if (seen.dtype.code != dlpack::floating_point) return std::nullopt;
  for (const value_type type : {value_type::float16, value_type::float32, value_type::float64}) {
    if (seen.dtype.bits == 8 * size_of(type)) return type;
  }
  return std::nullopt;
}

bool is_negated(py::handle tensor) { return call(tensor, names().is_neg).ptr() != Py_False; }

}  // namespace

std::optional<csr_tensors> view_csr_tensors(py::handle A, int device, std::optional<value_type> dtype) {
  matrix_parts parts = parts_of(A);
  const auto sizes = two_sizes(parts.shape);
  if (!sizes || !parts.indptr || !parts.indices || !parts.values) return std::nullopt;
  const dlpack::exchange_api* const exchange = exchange_of(parts.indptr);
  const bool all_known =
      exchange != nullptr && exchange_of(parts.indices) == exchange && exchange_of(parts.values) == exchange;
  if (!all_known || exchange->current_stream == nullptr || exchange->allocate == nullptr) return std::nullopt;
  if (is_negated(parts.values)) return std::nullopt;
  const auto offsets = view_vector(*exchange, parts.indptr, device);
  const auto columns = view_vector(*exchange, parts.indices, device);
  const auto numbers = view_vector(*exchange, parts.values, device);
  if (!offsets || !columns || !numbers || !is_integer(*offsets) || !is_integer(*columns)) return std::nullopt;
  const std::optional<value_type> type = value_type_of(*numbers);
  if (!type || (dtype && *dtype != *type)) return std::nullopt;
  // Above, the host numbers nonzeros with 64 bits.
  if (columns->shape[0] > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
  if (offsets->shape[0] != (*sizes)[0] + 1) return std::nullopt;

  csr_tensors found;
  void* stream = nullptr;
  if (exchange->current_stream(dlpack::device_type::cuda, device, &stream) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  device_csr_view& matrix = found.matrix;
  matrix.device = device;
  matrix.num_rows = (*sizes)[0];
  matrix.num_cols = (*sizes)[1];
  matrix.num_indices = columns->shape[0];
  matrix.num_values = numbers->shape[0];
  matrix.indptr = data_of(*offsets);
  matrix.indices = data_of(*columns);
  matrix.data = data_of(*numbers);
  matrix.wide_indptr = offsets->dtype.bits == 64;
  matrix.wide_indices = columns->dtype.bits == 64;
  matrix.dtype = *type;
  matrix.stream = static_cast<CUstream_st*>(stream);
  found.allocate = dlpack::allocator_of(*exchange, {dlpack::device_type::cuda, device});
  found.owner = py::make_tuple(A, std::move(parts.indptr), std::move(parts.indices), std::move(parts.values));
  return found;
}

}  // namespace warploom::python
