// Sampled products of dense matrices, as Python sees them: the arguments are checked by warploom.sddmm.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "common.hpp"
#include "device/cuda_function.hpp"
#include "kernels/sampled/prepared_product.hpp"
#include "kernels/sampled/sampled_product.hpp"
#include "planner/trial.hpp"
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

std::tuple<dense_view, dense_view, value_type> view_operands(const py::array& X, const py::array& Y,
                                                             std::int64_t num_rows, std::int64_t num_cols) {
  const std::optional<value_type> dtype = value_type_of(X);
  if (!dtype) throw error(error_kind::dtype, "X", -1, "X must be float16, bfloat16, float32 or float64");
  const dense_view X_view = view_rows(X, *dtype, num_rows, "X");
  const dense_view Y_view = view_rows(Y, *dtype, num_cols, "Y");
  if (X_view.num_cols != Y_view.num_cols) {
    throw error(error_kind::shape, "Y", -1, "Y must have as many columns as X");
  }
  return {X_view, Y_view, *dtype};
}

py::array sample_on_host(const csr_holder& pattern, const py::array& X, const py::array& Y) {
  const auto [X_view, Y_view, dtype] = view_operands(X, Y, pattern.view.num_rows, pattern.view.num_cols);
  py::array out(numpy_dtype(dtype), std::vector<py::ssize_t>{pattern.view.nnz()});
  void* const to = out.mutable_data();
  {
    const py::gil_scoped_release release;
    sampled_product(pattern.view, X_view, Y_view, dtype, to);
  }
  return out;
}

void check_size(const device_csr_arrays& arrays, std::int64_t nnz) {
  if (nnz > arrays.num_indices) throw error(error_kind::shape, "out", -1, "out has more entries than the pattern");
}

// Host operands, which are uploaded.
py::array sample_host_on_device(const resident_csr& pattern, const py::array& X, const py::array& Y, std::int64_t nnz) {
  const device_guard guard(pattern.device);
  const device_csr_arrays arrays = arrays_of(*pattern.matrix);
  check_size(arrays, nnz);
  const auto [X_view, Y_view, dtype] = view_operands(X, Y, arrays.num_rows, arrays.num_cols);
  py::array out(numpy_dtype(dtype), std::vector<py::ssize_t>{nnz});
  void* const to = out.mutable_data();
  {
    const py::gil_scoped_release release;
    const auto upload = [size = size_of(dtype)](const dense_view& given) {
      const std::size_t bytes = given.num_rows * given.num_cols * size;
      std::shared_ptr<void> copy = bytes == 0 ? nullptr : allocate_device_memory(bytes);
      if (bytes > 0) copy_to_device(copy.get(), given.data, bytes, nullptr);
      return copy;
    };
    const std::shared_ptr<void> X_copy = upload(X_view), Y_copy = upload(Y_view);
    const std::size_t bytes = nnz * size_of(dtype);
    const std::shared_ptr<void> result = bytes == 0 ? nullptr : allocate_device_memory(bytes);
    dense_view X_there = X_view, Y_there = Y_view;
    X_there.data = X_copy.get();
    Y_there.data = Y_copy.get();
    WARPLOOM_CUDA(sampled_product_cuda)(arrays, nnz, X_there, Y_there, dtype, result.get(), nullptr);
    if (bytes > 0) copy_to_host(to, result.get(), bytes, nullptr);
  }
  return out;
}

// A prepared product, with the pattern that it refers to.
struct bound_product {
  resident_csr pattern;
  std::unique_ptr<prepared_sampled_product> product;

  void run(const std::string& dtype, std::uintptr_t X, std::uintptr_t Y, std::int64_t k, std::uintptr_t out,
           std::uintptr_t stream) const {
    const device_guard guard(pattern.device);
    const device_csr_arrays arrays = arrays_of(*pattern.matrix);
    product->run({reinterpret_cast<void*>(X), arrays.num_rows, k, k},
                 {reinterpret_cast<void*>(Y), arrays.num_cols, k, k}, parse_value_type(dtype),
                 reinterpret_cast<void*>(out), reinterpret_cast<CUstream_st*>(stream));
  }
};

std::unique_ptr<bound_product> prepare_vendor(const resident_csr& pattern, const std::string& dtype, std::int64_t nnz) {
  const device_guard guard(pattern.device);
  const device_csr_arrays arrays = arrays_of(*pattern.matrix);
  check_size(arrays, nnz);
  auto product = WARPLOOM_CUDA(prepare_vendor_sampled_product)(arrays, nnz, parse_value_type(dtype));
  return std::make_unique<bound_product>(bound_product{pattern, std::move(product)});
}

std::unique_ptr<bound_product> prepare_vectors(const resident_csr& pattern) {
  const device_guard guard(pattern.device);
  const py::gil_scoped_release release;
  auto product = WARPLOOM_CUDA(prepare_vector_sampled_product)(*pattern.matrix, std::nullopt);
  return std::make_unique<bound_product>(bound_product{pattern, std::move(product)});
}

// ---- Measuring, as trial does for products

// Operands in device memory, and a result that is made there again and again.
class sampled_trial {
 public:
  sampled_trial(resident_csr pattern, const py::array& X, const py::array& Y, std::int64_t nnz)
      : pattern_(std::move(pattern)), nnz_(nnz) {
    const device_guard guard(pattern_.device);
    arrays_ = arrays_of(*pattern_.matrix);
    check_size(arrays_, nnz);
    std::tie(X_, Y_, dtype_) = view_operands(X, Y, arrays_.num_rows, arrays_.num_cols);
    const py::gil_scoped_release release;
    eviction_ = eviction_memory();
    X_memory_ = uploaded(X_);
    Y_memory_ = uploaded(Y_);
    result_ = allocate_device_memory(std::max<std::size_t>(bytes(), 1));
    X_.data = X_memory_.get();
    Y_.data = Y_memory_.get();
    synchronize(nullptr);
  }

  // The values, computed over bytes that are no number in any type.
  py::array values(const py::object& by) {
    const bound_product* const prepared = product_of(by);
    py::array out(numpy_dtype(dtype_), std::vector<py::ssize_t>{nnz_});
    void* const to = out.mutable_data();
    const py::gil_scoped_release release;
    const device_guard guard(pattern_.device);
    fill_device(result_.get(), 0xff, bytes(), nullptr);
    run(prepared, nullptr);
    if (bytes() > 0) copy_to_host(to, result_.get(), bytes(), nullptr);
    return out;
  }

  timing time(const py::object& by, bool cold, int repeats, int warmup, double budget_ms) {
    const bound_product* const prepared = product_of(by);
    const py::gil_scoped_release release;
    const device_guard guard(pattern_.device);
    return summarize(time_on_device([&](CUstream_st* stream) { run(prepared, stream); },
                                    {cold, warmup, repeats, budget_ms, std::min(3, repeats)}, nullptr));
  }

 private:
  static const bound_product* product_of(const py::object& by) {
    return by.is_none() ? nullptr : &by.cast<const bound_product&>();
  }

  std::size_t bytes() const { return nnz_ * size_of(dtype_); }

  std::shared_ptr<void> uploaded(const dense_view& given) const {
    const std::size_t size = given.num_rows * given.num_cols * size_of(dtype_);
    std::shared_ptr<void> copy = allocate_device_memory(std::max<std::size_t>(size, 1));
    if (size > 0) copy_to_device(copy.get(), given.data, size, nullptr);
    return copy;
  }

  void run(const bound_product* prepared, CUstream_st* stream) {
    if (prepared != nullptr) {
      prepared->product->run(X_, Y_, dtype_, result_.get(), stream);
    } else {
      WARPLOOM_CUDA(sampled_product_cuda)(arrays_, nnz_, X_, Y_, dtype_, result_.get(), stream);
    }
  }

  resident_csr pattern_;
  std::int64_t nnz_;
  value_type dtype_{};
  device_csr_arrays arrays_{};
  dense_view X_{}, Y_{};
  std::shared_ptr<void> X_memory_, Y_memory_, result_, eviction_;
};

}  // namespace

void bind_sampled(py::module_& module) {
  module.def("sampled_product", &sample_on_host, py::arg("pattern"), py::arg("X").noconvert(), py::arg("Y").noconvert(),
             "For every nonzero (i, j) the dot product of row i of X and row j of Y, row-major host arrays.");
  module.def("sampled_product_of_host_operands", &sample_host_on_device, py::arg("pattern"), py::arg("X").noconvert(),
             py::arg("Y").noconvert(), py::arg("nnz"),
             "The same on the device of the pattern, for host arrays: complete on return.");
  py::class_<bound_product>(module, "PreparedSampledProduct",
                            "A sampled product that is prepared for a pattern in device memory.")
      .def_static("vendor", &prepare_vendor, py::arg("pattern"), py::arg("dtype"), py::arg("nnz"),
                  "The vendor's, for operands of one type.")
      .def_static("column_vectors", &prepare_vectors, py::arg("pattern"), "Column vectors, for operands of any type.")
      .def_property_readonly("nbytes", [](const bound_product& bound) { return bound.product->bytes(); })
      .def("run", &bound_product::run, py::arg("dtype"), py::arg("X"), py::arg("Y"), py::arg("k"), py::arg("out"),
           py::arg("stream"), "Enqueue it for operands given by their addresses.");
  py::class_<sampled_trial>(module, "SampledTrial",
                            "Operands of a sampled product in device memory, to check and time it with.")
      .def(py::init<resident_csr, const py::array&, const py::array&, std::int64_t>(), py::arg("pattern"),
           py::arg("X").noconvert(), py::arg("Y").noconvert(), py::arg("nnz"))
      .def("values", &sampled_trial::values, py::arg("prepared") = py::none(),
           "Compute the product once, by the prepared one if one is given, and download it.")
      .def("time", &sampled_trial::time, py::arg("prepared") = py::none(), py::kw_only(), py::arg("cold"),
           py::arg("repeats") = 30, py::arg("warmup") = 2, py::arg("budget_ms") = 50.0,
           "Time it: fewer repeats, but at least three, where they would take longer than the budget.");
}

}  // namespace warploom::python
