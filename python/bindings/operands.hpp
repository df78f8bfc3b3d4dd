// Operands of products as Python gives them, read by compiled code: arrays of NumPy, tensors of PyTorch, arrays of
// CuPy.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <optional>

#include "common.hpp"
#include "warploom/kernels/product.hpp"

struct CUstream_st;

namespace warploom::python {

enum class framework { numpy, torch, cupy, unknown };

// By the exact type: a subclass may have a meaning of its own.
framework framework_of(PyTypeObject* type);

inline constexpr int host = -1;

// A vector or a matrix; sizes and strides in elements.
struct operand {
  char* data = nullptr;
  int ndim = 0;
  int device = host;
  std::array<std::int64_t, 2> shape{1, 1};
  std::array<std::int64_t, 2> strides{1, 1};
};

enum class purpose { read, write, fresh };  // B, out, a result that was just made

// The type of the values of an operand in GPU memory, if it is a supported one. Leaves no exception set.
std::optional<value_type> type_on_device(framework kind, PyObject* object);

// Whether an operand is of this type and can be taken as it is. Leaves no exception set: what the complete path has to
// say about an operand that raises one is clearer.
bool view(framework kind, PyObject* object, value_type dtype, purpose use, operand& seen);

// The leading dimension if the strides of an operand that is not empty are those of the layout, else 0. A vector of
// stride s is a matrix of one column with rows s apart.
std::int64_t leading_dimension(const operand& seen, layout order);

// Whether its address is a multiple of the size of its values.
bool is_aligned(const operand& seen, value_type dtype);

// Whether two operands that are not empty share no memory.
bool apart(const operand& a, const operand& b, value_type dtype);

// An uninitialised array of the kind of `like`, in this layout; null with an exception set.
py::object make_result(framework kind, PyObject* like, const operand& shape, layout order, value_type dtype);

// The stream that is current for the framework on a device; false if there is none to be had. Leaves no exception set.
bool find_stream(framework kind, int device, CUstream_st*& stream);

// Sets the exception that a bound function would raise, and returns null.
PyObject* raise_as_bound(const std::exception_ptr& failure) noexcept;

// What a builtin function returns. These cost less to call than functions of pybind11.
template <class Call>
PyObject* as_builtin(Call call) noexcept {
  try {
    return py::object(call()).release().ptr();
  } catch (...) {
    return raise_as_bound(std::current_exception());
  }
}

// A builtin function of a capsule.
py::function make_builtin(PyMethodDef& definition, const py::capsule& self);

// What a builtin function says of operands that are for the complete path.
inline py::object decline() { return py::reinterpret_borrow<py::object>(Py_NotImplemented); }

}  // namespace warploom::python
