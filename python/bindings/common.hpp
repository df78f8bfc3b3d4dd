// What every bind_*.cpp shares: NumPy arrays in, NumPy arrays out.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "warploom/csr_view.hpp"
#include "warploom/error.hpp"
#include "warploom/geometry.hpp"

namespace warploom {
class device_csr;
class plan;
class product_plan;
}  // namespace warploom

namespace warploom::python {

namespace py = pybind11;

struct enqueueing;

// A validated CSR matrix that keeps the NumPy arrays it refers to alive. Python sees it as _core.CsrView.
struct csr_holder {
  py::array_t<std::int64_t> indptr;
  py::array_t<std::int32_t> indices;
  std::optional<py::array> data;
  csr_view view;
};

// A matrix in the memory of a GPU. Python sees it as _core.DeviceCsr.
struct resident_csr {
  int device;
  std::shared_ptr<const device_csr> matrix;
};

inline py::dtype numpy_dtype(value_type type) {
  if (type == value_type::float16) return py::dtype("float16");
  if (type == value_type::bfloat16) return py::module_::import("warploom._bfloat16").attr("DTYPE").cast<py::dtype>();
  return type == value_type::float32 ? py::dtype::of<float>() : py::dtype::of<double>();
}

// Throws error_kind::parameter for what is no name of a value type.
inline value_type parse_value_type(const std::string& name) {
  for (const value_type type : {value_type::float16, value_type::bfloat16, value_type::float32, value_type::float64}) {
    if (name == name_of(type)) return type;
  }
  throw error(error_kind::parameter, "dtype", -1,
              "dtype must be 'float16', 'bfloat16', 'float32' or 'float64', got '" + name + "'");
}

// The value type of an array, or nothing if it is not a supported one in native byte order.
inline std::optional<value_type> value_type_of(const py::array& array) {
  for (const value_type type : {value_type::float16, value_type::float32, value_type::float64}) {
    if (array.dtype().equal(numpy_dtype(type))) return type;
  }
  // NumPy has no such type of its own: it is not looked for before.
  const bool may_be_bfloat16 = array.dtype().kind() == 'V' && array.itemsize() == 2;
  if (may_be_bfloat16 && array.dtype().equal(numpy_dtype(value_type::bfloat16))) return value_type::bfloat16;
  return std::nullopt;
}

// Whether integers of so many bytes are int64.
inline bool is_wide(int bytes, const char* argument) {
  if (bytes == 4 || bytes == 8) return bytes == 8;
  throw error(error_kind::dtype, argument, -1, std::string(argument) + " must be int32 or int64");
}

// An object that may be copied and let go of without the GIL.
inline std::shared_ptr<py::object> hold(const py::object& given) {
  return {new py::object(given), [](py::object* held) {
            const py::gil_scoped_acquire acquire;
            delete held;
          }};
}

// The vector's storage handed to NumPy without a copy.
template <class Value>
py::array_t<Value> to_numpy(std::vector<Value> values) {
  auto owner = std::make_unique<std::vector<Value>>(std::move(values));
  Value* first = owner->data();
  const auto size = static_cast<py::ssize_t>(owner->size());
  const py::capsule release(owner.release(), [](void* p) { delete static_cast<std::vector<Value>*>(p); });
  return py::array_t<Value>(size, first, release);
}

inline geometry make_geometry(int warps, int threads, int elements_per_cache_line) {
  const geometry shape{warps, threads, elements_per_cache_line};
  validate(shape);
  return shape;
}

// A plan of an SpMV for the memory of a GPU, as Python sees plans: a _core.Plan.
py::object wrap_spmv_plan(const csr_holder& matrix, int device, std::unique_ptr<product_plan> plan);

// A builtin function fast_path(B, out) of a plan, which lives as long as its owner (bind_call.cpp).
py::function make_fast_path(py::object owner, plan& planned, enqueueing& turns);

void bind_errors(py::module_& module);
void bind_csr_view(py::module_& module);
void bind_permutations(py::module_& module);
void bind_formats(py::module_& module);
void bind_features(py::module_& module);
void bind_matrix_market(py::module_& module);
void bind_predictor(py::module_& module);
void bind_profile(py::module_& module);
void bind_model_inputs(py::module_& module);
void bind_selector(py::module_& module);
void bind_device(py::module_& module);
void bind_candidates(py::module_& module);
void bind_problem(py::module_& module);
void bind_plan(py::module_& module);
void bind_conjugate_gradients(py::module_& module);
void bind_trial(py::module_& module);
void bind_planning(py::module_& module);
void bind_reference(py::module_& module);
void bind_row_partition(py::module_& module);
void bind_sampled(py::module_& module);
void bind_sampled_pattern(py::module_& module);
void bind_pattern_image(py::module_& module);
void bind_experiments(py::module_& module);

}  // namespace warploom::python
