// warploom::error -> the class of the same kind in warploom.errors; files that cannot be read -> OSError.
#include <filesystem>
#include <new>

#include "common.hpp"
#include "warploom/error.hpp"

namespace warploom::python {
namespace {

const char* class_name(error_kind kind) {
  switch (kind) {
    case error_kind::invalid_matrix:
      return "InvalidMatrixError";
    case error_kind::shape:
      return "ShapeError";
    case error_kind::dtype:
      return "DtypeError";
    case error_kind::index_overflow:
      return "IndexOverflowError";
    case error_kind::parameter:
      return "ParameterError";
    case error_kind::profile:
      return "ProfileError";
    case error_kind::device:
      return "DeviceError";
    case error_kind::out_of_memory:
      return "OutOfMemoryError";
  }
  return "WarploomError";
}

}  // namespace

void bind_errors(py::module_&) {
  py::register_exception_translator([](std::exception_ptr pending) {
    try {
      if (pending) std::rethrow_exception(pending);
    } catch (const error& e) {
      const py::object cls = py::module_::import("warploom.errors").attr(class_name(e.kind()));
      const py::object position = e.position() >= 0 ? py::object(py::int_(e.position())) : py::none();
      const py::object value =
          cls(e.what(), py::arg("argument") = e.argument().empty() ? py::object(py::none()) : py::str(e.argument()),
              py::arg("position") = position);
      PyErr_SetObject(cls.ptr(), value.ptr());
    } catch (const std::filesystem::filesystem_error& e) {  // OSError makes of it FileNotFoundError and the like
      const py::tuple arguments = py::make_tuple(e.code().value(), e.code().message(), py::str(e.path1().string()));
      PyErr_SetObject(PyExc_OSError, arguments.ptr());
    } catch (const std::bad_alloc&) {
      const py::object cls = py::module_::import("warploom.errors").attr("OutOfMemoryError");
      PyErr_SetString(cls.ptr(), "not enough memory on the host");
    }
  });
}

}  // namespace warploom::python
