// A pattern in GPU memory that operands are multiplied at, given by their addresses or as they are: then without a step
// in Python, as in bind_call.cpp.
#include <array>
#include <atomic>
#include <memory>
#include <optional>

#include "common.hpp"
#include "device/cuda_function.hpp"
#include "device/stream_order.hpp"
#include "enqueueing.hpp"
#include "kernels/sampled/prepared_product.hpp"
#include "kernels/sampled/sampled_product.hpp"
#include "operands.hpp"
#include "warploom/device.hpp"
#include "warploom/error.hpp"

namespace warploom::python {
namespace {

// With column vectors of the pattern for the types that they pay for, made at the first product of such a type; with
// `vectors`, for all types and at once, or never.
class sampled_pattern {
 public:
  sampled_pattern(resident_csr pattern, std::int64_t nnz, std::optional<bool> vectors)
      : pattern_(std::move(pattern)), nnz_(nnz) {
    const device_guard guard(pattern_.device);
    arrays_ = arrays_of(*pattern_.matrix);
    if (nnz > arrays_.num_indices) {
      throw error(error_kind::shape, "nnz", -1, "there are more entries than the pattern has");
    }
    if (vectors == true) vectors_ = make_vectors(std::nullopt);
    for (auto& pays : pays_) pays = !vectors ? answer::unknown : *vectors ? answer::yes : answer::no;
  }

  int device() const { return pattern_.device; }
  std::int64_t num_rows() const { return arrays_.num_rows; }
  std::int64_t num_cols() const { return arrays_.num_cols; }
  std::int64_t nnz() const { return nnz_; }

  // Operands are row-major without padding.
  void multiply(void* X, void* Y, std::int64_t k, value_type dtype, void* out, CUstream_st* stream) {
    const device_guard guard(pattern_.device);
    const dense_view X_view{X, num_rows(), k, k}, Y_view{Y, num_cols(), k, k};
    if (takes_vectors(dtype, k, stream)) {
      vectors_->run(X_view, Y_view, dtype, out, stream);
    } else {
      WARPLOOM_CUDA(sampled_product_cuda)(arrays_, nnz_, X_view, Y_view, dtype, out, stream);
    }
  }

  // Nothing if that has not been decided.
  std::optional<bool> pays_for(value_type dtype) const {
    const answer known = pays_[static_cast<std::size_t>(dtype)].load(std::memory_order_acquire);
    if (known == answer::unknown) return std::nullopt;
    return known == answer::yes;
  }

  std::size_t vector_bytes() {
    const one_at_a_time turn(making_);
    return vectors_ ? vectors_->bytes() : 0;
  }

 private:
  enum class answer : std::uint8_t { unknown, no, yes };

  bool takes_vectors(value_type dtype, std::int64_t k, CUstream_st* stream) {
    const auto columns = static_cast<std::int64_t>(16 / size_of(dtype));
    if (k == 0 || k % columns != 0) return false;
    const std::optional<bool> pays = pays_for(dtype);
    return pays ? *pays : decide(dtype, stream);
  }

  // Not while a graph is captured, which would have to wait.
  bool decide(value_type dtype, CUstream_st* stream) {
    const one_at_a_time turn(making_);
    if (const std::optional<bool> pays = pays_for(dtype)) return *pays;
    if (is_captured(stream)) return false;
    if (!vectors_) vectors_ = make_vectors(dtype);
    const bool pays = vectors_ && vectors_->pays_for(dtype);
    pays_[static_cast<std::size_t>(dtype)].store(pays ? answer::yes : answer::no, std::memory_order_release);
    return pays;
  }

  std::unique_ptr<prepared_sampled_product> make_vectors(std::optional<value_type> dtype) const {
    const py::gil_scoped_release release;
    return WARPLOOM_CUDA(prepare_vector_sampled_product)(*pattern_.matrix, dtype);
  }

  resident_csr pattern_;
  std::int64_t nnz_;
  device_csr_arrays arrays_{};
  enqueueing making_;
  std::unique_ptr<prepared_sampled_product> vectors_;  // not changed once it is there
  std::array<std::atomic<answer>, 4> pays_{};          // by value_type
};

// ---- Operands as they are

bool fits(const sampled_pattern& pattern, const operand& seen, std::int64_t rows, value_type dtype) {
  return seen.ndim == 2 && seen.device == pattern.device() && rows > 0 && seen.shape[0] == rows && seen.shape[1] > 0 &&
         leading_dimension(seen, layout::row_major) == seen.shape[1] && is_aligned(seen, dtype);
}

bool fits_result(const sampled_pattern& pattern, const operand& seen, value_type dtype) {
  return seen.ndim == 1 && seen.device == pattern.device() && seen.shape[0] == pattern.nnz() &&
         (seen.strides[0] == 1 || seen.shape[0] == 1) && is_aligned(seen, dtype);
}

// The values, or NotImplemented where the complete path is to be taken. Null with an exception set is an error.
py::object call(sampled_pattern& pattern, PyObject* X, PyObject* Y, PyObject* out) {
  const framework kind = framework_of(Py_TYPE(X));
  if ((kind != framework::torch && kind != framework::cupy) || framework_of(Py_TYPE(Y)) != kind) return decline();
  const std::optional<value_type> dtype = type_on_device(kind, X);
  operand X_seen, Y_seen, out_seen;
  if (!dtype || !view(kind, X, *dtype, purpose::read, X_seen) || !view(kind, Y, *dtype, purpose::read, Y_seen)) {
    return decline();
  }
  if (!fits(pattern, X_seen, pattern.num_rows(), *dtype) || !fits(pattern, Y_seen, pattern.num_cols(), *dtype)) {
    return decline();
  }
  if (X_seen.shape[1] != Y_seen.shape[1] || pattern.nnz() == 0) return decline();
  // CuPy allocates on the current device.
  if (kind == framework::cupy && current_device() != pattern.device()) return decline();
  CUstream_st* stream = nullptr;
  if (!find_stream(kind, pattern.device(), stream)) return decline();

  const auto takes = [&](PyObject* given, purpose use) {
    return framework_of(Py_TYPE(given)) == kind && view(kind, given, *dtype, use, out_seen) &&
           fits_result(pattern, out_seen, *dtype);
  };
  py::object result;
  if (out != Py_None) {
    if (!takes(out, purpose::write) || !apart(X_seen, out_seen, *dtype) || !apart(Y_seen, out_seen, *dtype)) {
      return decline();
    }
    result = py::reinterpret_borrow<py::object>(out);
  } else {
    operand wanted;
    wanted.ndim = 1;
    wanted.shape[0] = pattern.nnz();
    result = make_result(kind, X, wanted, layout::row_major, *dtype);
    if (!result) return {};
    if (!takes(result.ptr(), purpose::fresh)) return decline();  // a mode made something else
  }
  pattern.multiply(X_seen.data, Y_seen.data, X_seen.shape[1], *dtype, out_seen.data, stream);
  return result;
}

struct called_pattern {
  py::object owner;
  sampled_pattern* pattern;
};

constexpr const char* capsule_name = "warploom.sampled_fast_path";

PyObject* call_fast_path(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 3) {
    PyErr_SetString(PyExc_TypeError, "fast_path takes X, Y and out");
    return nullptr;
  }
  const auto* const called = static_cast<const called_pattern*>(PyCapsule_GetPointer(self, capsule_name));
  if (called == nullptr) return nullptr;
  return as_builtin([&] { return call(*called->pattern, arguments[0], arguments[1], arguments[2]); });
}

PyMethodDef fast_path_definition = {
    "fast_path", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call_fast_path)), METH_FASTCALL,
    "fast_path(X, Y, out): the values if operands are taken as they are, else NotImplemented."};

py::function fast_path_of(const py::object& self) {
  auto made = std::make_unique<called_pattern>(called_pattern{self, &self.cast<sampled_pattern&>()});
  const py::capsule capsule(made.get(), capsule_name, [](PyObject* given) {
    delete static_cast<called_pattern*>(PyCapsule_GetPointer(given, capsule_name));
  });
  made.release();
  return make_builtin(fast_path_definition, capsule);
}

}  // namespace

void bind_sampled_pattern(py::module_& module) {
  py::class_<sampled_pattern>(module, "SampledPattern",
                              "A pattern in GPU memory, and column vectors of it once a product takes them.")
      .def(py::init<resident_csr, std::int64_t, std::optional<bool>>(), py::arg("pattern"), py::arg("nnz"),
           py::arg("vectors") = py::none(),
           "With `vectors`, products always take column vectors; never if it is False; else where they pay.")
      .def(
          "multiply",
          [](sampled_pattern& pattern, const std::string& dtype, std::uintptr_t X, std::uintptr_t Y, std::int64_t k,
             std::uintptr_t out, std::uintptr_t stream) {
            pattern.multiply(reinterpret_cast<void*>(X), reinterpret_cast<void*>(Y), k, parse_value_type(dtype),
                             reinterpret_cast<void*>(out), reinterpret_cast<CUstream_st*>(stream));
          },
          py::arg("dtype"), py::arg("X"), py::arg("Y"), py::arg("k"), py::arg("out"), py::arg("stream"),
          "Enqueue a product of row-major operands without padding, given by their addresses.")
      .def("fast_path", &fast_path_of,
           "A function of X, Y and out, which returns NotImplemented for what is not plain.")
      .def(
          "pays_for",
          [](const sampled_pattern& pattern, const std::string& dtype) {
            return pattern.pays_for(parse_value_type(dtype));
          },
          py::arg("dtype"), "Whether column vectors pay for a type; None if that has not been decided.")
      .def_property_readonly("vector_nbytes", &sampled_pattern::vector_bytes,
                             "Bytes that column vectors of it take; 0 if there are none.");
}

}  // namespace warploom::python
