// Sampled products of dense matrices, as Python sees them: the arguments are checked by warploom.torch.
#include <string>

#include "common.hpp"
#include "device/cuda_function.hpp"
#include "kernels/sampled/sampled_product.hpp"
#include "warploom/device.hpp"
#include "warploom/error.hpp"

namespace warploom::python {
namespace {

dense_view view_rows(const py::array& array, value_type dtype, std::int64_t rows, const char* name) {
  if (value_type_of(array) != dtype) {
    throw error(error_kind::dtype, name, -1, std::string(name) + " must be " + name_of(dtype));
  }
  const bool is_row_major = array.ndim() == 2 && (array.flags() & py::array::c_style) != 0;
  const bool aligned = reinterpret_cast<std::uintptr_t>(array.data()) % array.itemsize() == 0;
  if (!is_row_major || !aligned || array.shape(0) != rows) {
    throw error(error_kind::shape, name, -1,
                std::string(name) + " must be an aligned row-major array of " + std::to_string(rows) + " rows");
  }
  return {const_cast<void*>(array.data()), rows, array.shape(1), array.shape(1)};
}

py::array sample_on_host(const csr_holder& pattern, const py::array& X, const py::array& Y) {
  const std::optional<value_type> dtype = value_type_of(X);
  if (!dtype) throw error(error_kind::dtype, "X", -1, "X must be float16, float32 or float64");
  const dense_view X_view = view_rows(X, *dtype, pattern.view.num_rows, "X");
  const dense_view Y_view = view_rows(Y, *dtype, pattern.view.num_cols, "Y");
  if (X_view.num_cols != Y_view.num_cols) {
    throw error(error_kind::shape, "Y", -1, "Y must have as many columns as X");
  }
  py::array out(numpy_dtype(*dtype), std::vector<py::ssize_t>{pattern.view.nnz()});
  void* const to = out.mutable_data();
  {
    const py::gil_scoped_release release;
    sampled_product(pattern.view, X_view, Y_view, *dtype, to);
  }
  return out;
}

void sample_on_device(const resident_csr& pattern, const std::string& dtype, std::uintptr_t X, std::uintptr_t Y,
                      std::int64_t k, std::uintptr_t out, std::int64_t nnz, std::uintptr_t stream) {
  const device_guard guard(pattern.device);
  const device_csr_arrays arrays = arrays_of(*pattern.matrix);
  if (nnz > arrays.num_indices) throw error(error_kind::shape, "out", -1, "out has more entries than the pattern");
  const value_type type = dtype == name_of(value_type::float16)   ? value_type::float16
                          : dtype == name_of(value_type::float32) ? value_type::float32
                                                                  : value_type::float64;
  const dense_view X_view{reinterpret_cast<void*>(X), arrays.num_rows, k, k};
  const dense_view Y_view{reinterpret_cast<void*>(Y), arrays.num_cols, k, k};
  WARPLOOM_CUDA(sampled_product_cuda)
  (arrays, nnz, X_view, Y_view, type, reinterpret_cast<void*>(out), reinterpret_cast<CUstream_st*>(stream));
}

}  // namespace

void bind_sampled(py::module_& module) {
  module.def("sampled_product", &sample_on_host, py::arg("pattern"), py::arg("X").noconvert(), py::arg("Y").noconvert(),
             "For every nonzero (i, j) the dot product of row i of X and row j of Y, row-major host arrays.");
  module.def("sampled_product_on_device", &sample_on_device, py::arg("pattern"), py::arg("dtype"), py::arg("X"),
             py::arg("Y"), py::arg("k"), py::arg("out"), py::arg("nnz"), py::arg("stream"),
             "Enqueue the same for row-major operands in device memory without padding, given by their addresses.");
}

}  // namespace warploom::python
