#include "csr_tensors.hpp"

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
};

const dlpack::exchange_api* torch_exchange(py::handle tensor) {
  static std::atomic<const known_type*> latest{nullptr};
  PyTypeObject* const type = Py_TYPE(tensor.ptr());
  const known_type* const known = latest.load(std::memory_order_acquire);
  if (known != nullptr && type == known->type) return known->exchange;
  const auto torch = py::reinterpret_steal<py::object>(PyImport_GetModule(py::str("torch").ptr()));
  if (!torch || !py::getattr(torch, "Tensor", py::none()).is(py::handle(reinterpret_cast<PyObject*>(type)))) {
    PyErr_Clear();
    return nullptr;
  }
  const dlpack::exchange_api* const exchange = dlpack::exchange_of(reinterpret_cast<PyObject*>(type));
  latest = new known_type{type, exchange};
  return exchange;
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

bool is_negated(py::handle tensor) {
  static made_once<py::str> is_neg;
  const py::str& name = is_neg.get([] { return py::str("is_neg"); });
  const auto found = py::reinterpret_steal<py::object>(PyObject_CallMethodNoArgs(tensor.ptr(), name.ptr()));
  if (!found) PyErr_Clear();
  return found.ptr() != Py_False;
}

}  // namespace

std::optional<csr_tensors> view_csr_tensors(py::handle indptr, py::handle indices, py::handle values,
                                            std::int64_t num_rows, std::int64_t num_cols, int device,
                                            std::optional<value_type> dtype) {
  const dlpack::exchange_api* const exchange = torch_exchange(indptr);
  const bool all_known =
      exchange != nullptr && torch_exchange(indices) == exchange && torch_exchange(values) == exchange;
  if (!all_known || exchange->current_stream == nullptr || is_negated(values)) return std::nullopt;
  const auto offsets = view_vector(*exchange, indptr, device);
  const auto columns = view_vector(*exchange, indices, device);
  const auto numbers = view_vector(*exchange, values, device);
  if (!offsets || !columns || !numbers || !is_integer(*offsets) || !is_integer(*columns)) return std::nullopt;
  const std::optional<value_type> type = value_type_of(*numbers);
  if (!type || (dtype && *dtype != *type)) return std::nullopt;
  // Above, the host numbers nonzeros with 64 bits.
  if (columns->shape[0] > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
  if (offsets->shape[0] != num_rows + 1) return std::nullopt;

  csr_tensors found;
  void* stream = nullptr;
  if (exchange->current_stream(dlpack::device_type::cuda, device, &stream) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  device_csr_view& matrix = found.matrix;
  matrix.device = device;
  matrix.num_rows = num_rows;
  matrix.num_cols = num_cols;
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
  return found;
}

}  // namespace warploom::python
