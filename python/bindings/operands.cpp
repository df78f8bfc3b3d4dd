#include "operands.hpp"

#include <Python.h>

#include <atomic>

#include "dlpack.hpp"
#include "made_once.hpp"

namespace warploom::python {
namespace {

// ---- Frameworks

// What is known of a framework is never changed and never freed: other threads may be reading it. Where a type is
// replaced by another one of its name, as when a module is loaded again, what is known of the new one takes its place.
struct known_numpy {
  py::object type;
  py::object empty;
  std::array<py::object, 4> dtypes;  // by value_type; null for bfloat16, which has a place of its own
};

struct known_torch {
  PyTypeObject* type;
  const dlpack::exchange_api* exchange;
  PyObject* strided;
  PyObject* forward_ad;  // the names of torch.autograd.forward_ad
};

struct known_cupy {
  PyTypeObject* type;
  PyObject* get_current_stream;
};

made_once<known_numpy> numpy;
made_once<py::object> bfloat16;                              // its type in NumPy
std::atomic<const known_torch*> torch{nullptr};              // null: not imported, or without what is needed
std::atomic<PyTypeObject*> torch_without_exchange{nullptr};  // its type of tensors
std::atomic<const known_cupy*> cupy{nullptr};

// Attributes and keywords, interned.
struct names {
  PyObject* requires_grad = intern("requires_grad");
  PyObject* current_level = intern("_current_level");
  PyObject* layout = intern("layout");
  PyObject* is_neg = intern("is_neg");
  PyObject* new_empty = intern("new_empty");
  PyObject* new_empty_strided = intern("new_empty_strided");
  PyObject* data = intern("data");
  PyObject* ptr = intern("ptr");
  PyObject* device_id = intern("device_id");
  PyObject* shape = intern("shape");
  PyObject* strides = intern("strides");
  PyObject* dtype = intern("dtype");
  PyObject* column_major = intern("F");
  PyObject* order_keyword = PyTuple_Pack(1, intern("order"));
  PyObject* torch = intern("torch");
  PyObject* cupy = intern("cupy");

  static PyObject* intern(const char* text) { return PyUnicode_InternFromString(text); }
};

const names& name() {
  static made_once<names> all;
  return all.get([] { return names(); });
}

PyObject* keep(py::object object) { return object.release().ptr(); }

const known_numpy& learned_numpy() {
  return numpy.get([] {
    const auto module = py::module_::import("numpy");
    known_numpy made;
    made.empty = module.attr("empty");
    for (const value_type type : {value_type::float16, value_type::float32, value_type::float64}) {
      made.dtypes.at(static_cast<std::size_t>(type)) = numpy_dtype(type);
    }
    made.type = module.attr("ndarray");
    return made;
  });
}

// An attribute of a module that is imported already, if the attribute is `type`; else null.
py::object module_of(PyObject* module_name, const char* type_name, PyTypeObject* type) {
  auto module = py::reinterpret_steal<py::object>(PyImport_GetModule(module_name));
  if (!module) {
    PyErr_Clear();
    return {};
  }
  const py::object found = py::getattr(module, type_name, py::none());
  return found.ptr() == reinterpret_cast<PyObject*>(type) ? module : py::object();
}

bool learn_torch(PyTypeObject* type) {
  if (type == torch_without_exchange.load(std::memory_order_relaxed)) return false;
  const py::object module = module_of(name().torch, "Tensor", type);
  if (!module) return false;
  const dlpack::exchange_api* exchange = dlpack::exchange_of(reinterpret_cast<PyObject*>(type));
  if (exchange == nullptr) {
    torch_without_exchange = type;
    return false;
  }
  torch = new known_torch{type, exchange, keep(module.attr("strided")),
                          keep(module.attr("autograd").attr("forward_ad").attr("__dict__"))};
  return true;
}

bool learn_cupy(PyTypeObject* type) {
  const py::object module = module_of(name().cupy, "ndarray", type);
  if (!module) return false;
  cupy = new known_cupy{type, keep(module.attr("cuda").attr("get_current_stream"))};
  return true;
}

}  // namespace

framework framework_of(PyTypeObject* type) {
  const auto is_of = [type](const auto* known) { return known != nullptr && known->type == type; };
  if (is_of(torch.load(std::memory_order_acquire))) return framework::torch;
  if (learned_numpy().type.ptr() == reinterpret_cast<PyObject*>(type)) return framework::numpy;
  if (is_of(cupy.load(std::memory_order_acquire))) return framework::cupy;
  if (learn_torch(type)) return framework::torch;
  if (learn_cupy(type)) return framework::cupy;
  return framework::unknown;
}

// ---- Operands

namespace {

bool not_seen() {
  PyErr_Clear();
  return false;
}

bool is_false(const py::object& value) { return value.ptr() == Py_False; }

py::object attribute(PyObject* of, PyObject* attribute_name) {
  return py::reinterpret_steal<py::object>(PyObject_GetAttr(of, attribute_name));
}

// A borrowed reference.
PyObject* numpy_type(value_type dtype) {
  const py::object& type = learned_numpy().dtypes[static_cast<std::size_t>(dtype)];
  if (type) return type.ptr();
  return bfloat16.get([] { return py::object(numpy_dtype(value_type::bfloat16)); }).ptr();
}

// Identity is enough nearly always; arrays that were pickled have types of their own.
bool is_type(const py::object& type, value_type dtype) {
  const py::handle expected = numpy_type(dtype);
  if (type.is(expected)) return true;
  if (!type || !py::isinstance<py::dtype>(type) || dtype == value_type::bfloat16) return false;
  const auto found = py::reinterpret_borrow<py::dtype>(type);
  return found.num() == py::reinterpret_borrow<py::dtype>(expected).num() && found.byteorder() == '=';
}

bool view_numpy(PyObject* object, value_type dtype, purpose use, operand& seen) {
  const auto array = py::reinterpret_borrow<py::array>(object);
  const py::ssize_t ndim = array.ndim();
  if (ndim != 1 && ndim != 2) return false;
  if (!is_type(array.dtype(), dtype)) return false;
  if (use == purpose::write && !array.writeable()) return false;
  const auto size = static_cast<py::ssize_t>(size_of(dtype));
  for (py::ssize_t i = 0; i < ndim; ++i) {
    if (array.strides(i) % size != 0) return false;
    seen.shape[i] = array.shape(i);
    seen.strides[i] = array.strides(i) / size;
  }
  seen.ndim = static_cast<int>(ndim);
  seen.device = host;
  seen.data = static_cast<char*>(const_cast<void*>(array.data()));
  return true;
}

// Whether tensors may carry derivatives of forward mode: the level of dual numbers is -1 otherwise.
bool may_have_tangents(const known_torch& known) {
#if PY_VERSION_HEX >= 0x030d0000
  PyObject* found = nullptr;  // a reference of its own: another thread may enter a level
  if (PyDict_GetItemRef(known.forward_ad, name().current_level, &found) < 0) PyErr_Clear();
  const auto level = py::reinterpret_steal<py::object>(found);
#else
  PyObject* const found = PyDict_GetItemWithError(known.forward_ad, name().current_level);
  if (found == nullptr) PyErr_Clear();
  const auto level = py::reinterpret_borrow<py::object>(found);
#endif
  if (!level) return false;
  return !PyLong_CheckExact(level.ptr()) || PyLong_AsLong(level.ptr()) >= 0;
}

// What the exchange does not look at. Where gradients are off, the complete path takes what requires one.
bool is_plain_tensor(const known_torch& known, PyObject* object) {
  return !may_have_tangents(known) && is_false(attribute(object, name().requires_grad)) &&
         attribute(object, name().layout).is(py::handle(known.strided)) &&
         is_false(py::reinterpret_steal<py::object>(PyObject_CallMethodNoArgs(object, name().is_neg)));
}

std::optional<value_type> supported_type(const dlpack::data_type& type) {
  if (type.lanes != 1) return std::nullopt;
  if (type.code == dlpack::brain_floating_point && type.bits == 16) return value_type::bfloat16;
  if (type.code != dlpack::floating_point) return std::nullopt;
  for (const value_type dtype : {value_type::float16, value_type::float32, value_type::float64}) {
    if (type.bits == 8 * size_of(dtype)) return dtype;
  }
  return std::nullopt;
}

bool view_torch(PyObject* object, value_type dtype, purpose use, operand& seen) {
  const known_torch& known = *torch.load(std::memory_order_acquire);
  if (use != purpose::fresh && !is_plain_tensor(known, object)) return not_seen();
  dlpack::tensor tensor;
  if (known.exchange->view(object, &tensor) != 0) return not_seen();
  if (tensor.ndim != 1 && tensor.ndim != 2) return false;
  if (tensor.data == nullptr || tensor.shape == nullptr || tensor.strides == nullptr) return false;
  if (supported_type(tensor.dtype) != dtype) return false;
  if (tensor.device.type == dlpack::device_type::cuda) {
    seen.device = tensor.device.number;
  } else if (tensor.device.type == dlpack::device_type::cpu) {
    seen.device = host;
  } else {
    return false;
  }
  for (int i = 0; i < tensor.ndim; ++i) {
    seen.shape[i] = tensor.shape[i];
    seen.strides[i] = tensor.strides[i];
  }
  seen.ndim = tensor.ndim;
  seen.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  return true;
}

// A tuple of one or two integers.
bool read_integers(const py::object& tuple, operand& seen, std::array<std::int64_t, 2>& integers) {
  if (!tuple || !PyTuple_CheckExact(tuple.ptr())) return false;
  const py::ssize_t size = PyTuple_GET_SIZE(tuple.ptr());
  if (size != 1 && size != 2) return false;
  for (py::ssize_t i = 0; i < size; ++i) integers[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple.ptr(), i));
  seen.ndim = static_cast<int>(size);
  return PyErr_Occurred() == nullptr;
}

// CuPy has no exchange functions.
bool view_cupy(PyObject* object, value_type dtype, operand& seen) {
  if (!is_type(attribute(object, name().dtype), dtype)) return not_seen();
  const py::object memory = attribute(object, name().data);
  if (!memory) return not_seen();
  const py::object pointer = attribute(memory.ptr(), name().ptr);
  const py::object device = attribute(memory.ptr(), name().device_id);
  if (!pointer || !device) return not_seen();
  seen.data = static_cast<char*>(PyLong_AsVoidPtr(pointer.ptr()));
  seen.device = static_cast<int>(PyLong_AsLong(device.ptr()));
  if (seen.data == nullptr || seen.device < 0) return not_seen();
  if (!read_integers(attribute(object, name().shape), seen, seen.shape)) return not_seen();
  const int ndim = seen.ndim;
  if (!read_integers(attribute(object, name().strides), seen, seen.strides)) return not_seen();
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  for (int i = 0; i < ndim; ++i) {
    if (seen.strides[i] % size != 0) return false;
    seen.strides[i] /= size;
  }
  return seen.ndim == ndim;
}

}  // namespace

std::optional<value_type> type_on_device(framework kind, PyObject* object) {
  if (kind == framework::torch) {
    dlpack::tensor tensor;
    if (torch.load(std::memory_order_acquire)->exchange->view(object, &tensor) == 0)
      return supported_type(tensor.dtype);
  } else if (kind == framework::cupy) {
    const py::object found = attribute(object, name().dtype);
    for (const value_type dtype :
         {value_type::float32, value_type::float64, value_type::float16, value_type::bfloat16}) {
      if (is_type(found, dtype)) return dtype;
    }
  }
  PyErr_Clear();
  return std::nullopt;
}

bool view(framework kind, PyObject* object, value_type dtype, purpose use, operand& seen) {
  switch (kind) {
    case framework::numpy:
      return view_numpy(object, dtype, use, seen);
    case framework::torch:
      return view_torch(object, dtype, use, seen);
    case framework::cupy:
      return view_cupy(object, dtype, seen);
    default:
      return false;
  }
}

std::int64_t leading_dimension(const operand& seen, layout order) {
  const int major = order == layout::row_major ? 0 : 1;
  const int minor = 1 - major;
  const std::int64_t extent = seen.shape[minor];
  if (extent > 1 && seen.strides[minor] != 1) return 0;
  if (seen.shape[major] == 1) return extent;
  return seen.strides[major] >= extent ? seen.strides[major] : 0;
}

bool is_aligned(const operand& seen, value_type dtype) {
  return reinterpret_cast<std::uintptr_t>(seen.data) % size_of(dtype) == 0;
}

// One past the last element.
static const char* end_of(const operand& seen, std::size_t size) {
  std::int64_t last = 0;
  for (int i = 0; i < seen.ndim; ++i) last += (seen.shape[i] - 1) * seen.strides[i];
  return seen.data + (last + 1) * static_cast<std::int64_t>(size);
}

bool apart(const operand& a, const operand& b, value_type dtype) {
  const std::size_t size = size_of(dtype);
  return end_of(a, size) <= b.data || end_of(b, size) <= a.data;
}

// ---- Results

// A tensor is made by torch's own methods: one made by the functions of the exchange costs 0.1 us less, but torch sees
// its memory as somebody else's, which cannot be resized and which record_stream does not know.
py::object make_result(framework kind, PyObject* like, const operand& shape, layout order, value_type dtype) {
  const auto rows = py::reinterpret_steal<py::object>(PyLong_FromLongLong(shape.shape[0]));
  const auto columns = py::reinterpret_steal<py::object>(PyLong_FromLongLong(shape.shape[1]));
  if (!rows || !columns) return {};
  const bool by_column = shape.ndim == 2 && order == layout::column_major;
  if (kind == framework::torch) {
    if (by_column) {
      const auto sizes = py::reinterpret_steal<py::object>(PyTuple_Pack(2, rows.ptr(), columns.ptr()));
      const auto one = py::reinterpret_steal<py::object>(PyLong_FromLong(1));
      const auto strides = py::reinterpret_steal<py::object>(PyTuple_Pack(2, one.ptr(), rows.ptr()));
      if (!sizes || !strides) return {};
      PyObject* const arguments[] = {like, sizes.ptr(), strides.ptr()};
      return py::reinterpret_steal<py::object>(
          PyObject_VectorcallMethod(name().new_empty_strided, arguments, 3, nullptr));
    }
    PyObject* const arguments[] = {like, rows.ptr(), columns.ptr()};
    return py::reinterpret_steal<py::object>(
        PyObject_VectorcallMethod(name().new_empty, arguments, 1 + shape.ndim, nullptr));
  }
  const auto sizes = py::reinterpret_steal<py::object>(shape.ndim == 1 ? PyTuple_Pack(1, rows.ptr())
                                                                       : PyTuple_Pack(2, rows.ptr(), columns.ptr()));
  if (!sizes) return {};
  PyObject* const make = kind == framework::numpy
                             ? learned_numpy().empty.ptr()
                             : reinterpret_cast<PyObject*>(cupy.load(std::memory_order_acquire)->type);
  PyObject* const arguments[] = {sizes.ptr(), numpy_type(dtype), name().column_major};
  return py::reinterpret_steal<py::object>(
      PyObject_Vectorcall(make, arguments, 2, by_column ? name().order_keyword : nullptr));
}

// ---- Streams

bool find_stream(framework kind, int device, CUstream_st*& stream) {
  if (kind == framework::torch) {
    void* found = nullptr;
    const dlpack::exchange_api& exchange = *torch.load(std::memory_order_acquire)->exchange;
    if (exchange.current_stream(dlpack::device_type::cuda, device, &found) != 0) return not_seen();
    stream = static_cast<CUstream_st*>(found);
    return true;
  }
  const auto current =
      py::reinterpret_steal<py::object>(PyObject_CallNoArgs(cupy.load(std::memory_order_acquire)->get_current_stream));
  if (!current) return not_seen();
  const py::object pointer = attribute(current.ptr(), name().ptr);
  if (!pointer) return not_seen();
  stream = static_cast<CUstream_st*>(PyLong_AsVoidPtr(pointer.ptr()));
  return PyErr_Occurred() == nullptr || not_seen();
}

// ---- Builtin functions

PyObject* raise_as_bound(const std::exception_ptr& failure) noexcept {
  try {
    const py::cpp_function raise([failure] { std::rethrow_exception(failure); });
    return PyObject_CallNoArgs(raise.ptr());
  } catch (...) {  // nothing may leave a builtin function, not even for lack of memory for the error
    return PyErr_NoMemory();
  }
}

py::function make_builtin(PyMethodDef& definition, const py::capsule& self) {
  learned_numpy();
  auto function = py::reinterpret_steal<py::function>(PyCFunction_New(&definition, self.ptr()));
  if (!function) throw py::error_already_set();
  return function;
}

}  // namespace warploom::python
