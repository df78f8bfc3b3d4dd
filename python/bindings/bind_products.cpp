// Kernels as the registries list them, plans made from them, and the reference product.
#include <algorithm>
#include <mutex>
#include <string>

#include "common.hpp"
#include "warploom/error.hpp"
#include "warploom/kernels/product.hpp"
#include "warploom/permutation.hpp"

namespace warploom::python {
namespace {

using permutation_array = py::array_t<std::int32_t, py::array::c_style>;

std::string to_string(layout order) { return order == layout::row_major ? "row" : "column"; }

layout parse_layout(const std::string& name) {
  if (name == "row") return layout::row_major;
  if (name == "column") return layout::column_major;
  throw error(error_kind::parameter, "layout", -1, "layout must be 'row' or 'column', got '" + name + "'");
}

std::string shape_of(std::int64_t rows, std::int64_t columns) {
  return "(" + std::to_string(rows) + ", " + std::to_string(columns) + ")";
}

operation parse_operation(const std::string& name) {
  if (name == "spmm") return operation::spmm;
  if (name == "spmv") return operation::spmv;
  throw error(error_kind::parameter, "op", -1, "op must be 'spmm' or 'spmv', got '" + name + "'");
}

// ---- The registries

py::list describe_parameters(const std::vector<parameter>& parameters) {
  py::list list;
  for (const parameter& p : parameters) {
    list.append(py::dict(py::arg("name") = p.name, py::arg("default") = p.default_value, py::arg("values") = p.values,
                         py::arg("tried") = p.tried, py::arg("on_cpu") = p.on_cpu, py::arg("meaning") = p.meaning));
  }
  return list;
}

py::list describe_kernels(const std::string& op) {
  py::list list;
  for (const product_kernel& kernel : kernels(parse_operation(op))) {
    py::list layouts;
    for (const layout order : kernel.layouts) layouts.append(to_string(order));
    py::list devices;
    devices.append("cuda");
    if (kernel.runs_on_cpu()) devices.append("cpu");
    py::list dtypes;
    for (const value_type dtype : kernel.dtypes) dtypes.append(name_of(dtype));
    list.append(py::dict(py::arg("name") = kernel.name, py::arg("format") = kernel.format,
                         py::arg("summary") = kernel.summary, py::arg("layouts") = layouts,
                         py::arg("parameters") = describe_parameters(kernel.parameters),
                         py::arg("permutes") = kernel.permutes, py::arg("reproducible") = kernel.reproducible,
                         py::arg("devices") = devices, py::arg("dtypes") = dtypes,
                         py::arg("from_device") = kernel.from_device, py::arg("source") = kernel.source));
  }
  return list;
}

// ---- Operands

void check_dtype(const py::array& array, value_type dtype, const char* name) {
  if (value_type_of(array) == dtype) return;
  throw error(error_kind::dtype, name, -1,
              std::string(name) + " must be " + name_of(dtype) + " like the matrix, got " +
                  py::cast<std::string>(py::str(array.dtype())));
}

// The leading dimension if the strides are those of `order`, else -1. Strides along dimensions of fewer than two
// elements are never used, and NumPy leaves them undefined.
std::int64_t leading_dimension(const py::array& array, layout order) {
  const int inner = order == layout::row_major ? 1 : 0;
  const int outer = 1 - inner;
  const std::int64_t inner_size = array.shape(inner);
  if (array.size() == 0) return inner_size;
  if (inner_size > 1 && array.strides(inner) != array.itemsize()) return -1;
  if (array.shape(outer) == 1) return inner_size;
  const std::int64_t stride = array.strides(outer);
  const bool fits = stride % array.itemsize() == 0 && stride / array.itemsize() >= inner_size;
  return fits ? stride / array.itemsize() : -1;
}

dense_view view_dense(const py::array& array, layout order, value_type dtype, const char* name) {
  if (array.ndim() != 2) {
    throw error(error_kind::shape, name, -1,
                std::string(name) + " must be two-dimensional, got " + std::to_string(array.ndim()) + " dimensions");
  }
  check_dtype(array, dtype, name);
  const std::int64_t ld = leading_dimension(array, order);
  const bool aligned = reinterpret_cast<std::uintptr_t>(array.data()) % array.itemsize() == 0;
  if (ld < 0 || !aligned) {
    throw error(error_kind::shape, name, -1,
                std::string(name) + " must be an aligned " + to_string(order) + "-major array (" +
                    (order == layout::row_major ? "C" : "Fortran") + " order, padding between the " + to_string(order) +
                    "s allowed)");
  }
  return {const_cast<void*>(array.data()), array.shape(0), array.shape(1), ld};
}

void check_shape(const dense_view& view, std::int64_t rows, std::int64_t columns, const char* name) {
  if (view.num_rows == rows && view.num_cols == columns) return;
  throw error(error_kind::shape, name, -1,
              std::string(name) + " must have shape " + shape_of(rows, columns) + ", got " +
                  shape_of(view.num_rows, view.num_cols));
}

void check_columns(std::int64_t k) {
  if (k < 1) throw error(error_kind::parameter, "k", -1, "k must be at least 1, got " + std::to_string(k));
}

void check_has_values(const csr_holder& matrix) {
  if (matrix.data) return;
  throw error(error_kind::invalid_matrix, "data", -1, "the matrix is a pattern without values; a product needs them");
}

// ---- Plans

class bound_plan {
 public:
  // `device` is the number of a GPU, or -1 for the CPU.
  bound_plan(csr_holder matrix, operation op, layout order, int device, std::unique_ptr<product_plan> plan)
      : matrix_(std::move(matrix)), op_(op), order_(order), device_(device), plan_(std::move(plan)) {}

  std::size_t bytes() const { return plan_->bytes(); }

  void run_host(const py::array& B, py::array& C) {
    const dense_view B_view = view_dense(B, order_, matrix_.view.dtype, "B");
    const dense_view C_view = view_dense(C, order_, matrix_.view.dtype, "C");
    check_shape(B_view, matrix_.view.num_cols, B_view.num_cols, "B");
    check_shape(C_view, matrix_.view.num_rows, B_view.num_cols, "C");
    check_columns_of_operation(B_view.num_cols);
    check_output(B, C);
    const py::gil_scoped_release release;
    const std::lock_guard<std::mutex> one_at_a_time(
        running_);  // taken without the GIL: a waiting thread must not hold it
    if (device_ < 0) {
      plan_->run(B_view, C_view, nullptr);
    } else {
      run_staged(B_view, C_view);
    }
  }

  // Enqueues the product of operands in device memory on `stream`. Shapes are the Python layer's to check.
  void run_device(std::uintptr_t B, std::int64_t ldb, std::uintptr_t C, std::int64_t ldc, std::int64_t k,
                  std::uintptr_t stream) {
    if (device_ < 0) throw error(error_kind::device, "B", -1, "this plan was made for the CPU but B is in GPU memory");
    check_columns_of_operation(k);
    const device_guard guard(device_);
    plan_->run({reinterpret_cast<void*>(B), matrix_.view.num_cols, k, ldb},
               {reinterpret_cast<void*>(C), matrix_.view.num_rows, k, ldc}, reinterpret_cast<CUstream_st*>(stream));
  }

  std::vector<double> time_conversion(const timing_options& options) {
    const device_guard guard(device_);
    const py::gil_scoped_release release;
    return plan_->time_conversion(options);
  }

  std::vector<double> time_device(std::uintptr_t B, std::int64_t ldb, std::uintptr_t C, std::int64_t ldc,
                                  std::int64_t k, std::uintptr_t stream, const timing_options& options) {
    const device_guard guard(device_);
    const dense_view B_view{reinterpret_cast<void*>(B), matrix_.view.num_cols, k, ldb};
    const dense_view C_view{reinterpret_cast<void*>(C), matrix_.view.num_rows, k, ldc};
    const py::gil_scoped_release release;
    return time_on_device([&](CUstream_st* s) { plan_->run(B_view, C_view, s); }, options,
                          reinterpret_cast<CUstream_st*>(stream));
  }

 private:
  void check_columns_of_operation(std::int64_t k) const {
    if (op_ == operation::spmm || k == 1) return;
    throw error(error_kind::shape, "B", -1, "an SpMV plan multiplies one vector, got " + std::to_string(k));
  }

  static void check_output(const py::array& B, const py::array& C) {
    if (!C.writeable()) throw error(error_kind::parameter, "C", -1, "C is read-only");
    if (py::cast<bool>(py::module_::import("numpy").attr("shares_memory")(B, C))) {
      throw error(error_kind::parameter, "C", -1, "C shares memory with B, which is still read while C is written");
    }
  }

  // Host operands for a GPU plan: copied there, multiplied, copied back. Padding between columns or rows of C may be
  // overwritten only with what it held, so C travels both ways if it has any.
  void run_staged(const dense_view& B, const dense_view& C) {
    const device_guard guard(device_);
    const auto span_bytes = [&](const dense_view& view) -> std::size_t {
      const std::int64_t major = order_ == layout::row_major ? view.num_rows : view.num_cols;
      const std::int64_t minor = order_ == layout::row_major ? view.num_cols : view.num_rows;
      return major * minor == 0 ? 0 : ((major - 1) * view.leading_dimension + minor) * size_of(matrix_.view.dtype);
    };
    const auto B_device = allocate_device_memory(span_bytes(B));
    const auto C_device = allocate_device_memory(span_bytes(C));
    copy_to_device(B_device.get(), B.data, span_bytes(B), nullptr);
    const std::int64_t tight = order_ == layout::row_major ? C.num_cols : C.num_rows;
    if (C.leading_dimension != tight) copy_to_device(C_device.get(), C.data, span_bytes(C), nullptr);
    plan_->run({B_device.get(), B.num_rows, B.num_cols, B.leading_dimension},
               {C_device.get(), C.num_rows, C.num_cols, C.leading_dimension}, nullptr);
    copy_to_host(C.data, C_device.get(), span_bytes(C), nullptr);
  }

  csr_holder matrix_;  // a CPU plan may look at its arrays
  operation op_;
  layout order_;
  int device_;
  std::unique_ptr<product_plan> plan_;
  std::mutex running_;
};

// Memory from a Python callable: allocate(bytes) -> (pointer, owner), kept as long as the owner.
device_allocator make_allocator(const py::object& allocate) {
  if (allocate.is_none()) return allocate_device_memory;
  return [allocate](std::size_t bytes) -> std::shared_ptr<void> {
    const py::gil_scoped_acquire acquire;
    const auto [pointer, owner] = py::cast<std::pair<std::uintptr_t, py::object>>(allocate(bytes));
    auto* kept = new py::object(owner);
    return std::shared_ptr<void>(reinterpret_cast<void*>(pointer), [kept](void*) {
      const py::gil_scoped_acquire held;
      delete kept;
    });
  };
}

resident_csr upload(const csr_holder& matrix, int device, const py::object& allocate) {
  check_has_values(matrix);
  const device_allocator allocator = make_allocator(allocate);
  const py::gil_scoped_release release;
  const device_guard guard(device);
  return {device, upload_csr(matrix.view, allocator)};
}

product_request make_request(const csr_holder& matrix, const product_kernel& kernel, std::int64_t k,
                             const std::string& layout_name, const parameter_values& parameters,
                             const std::optional<permutation_array>& perm) {
  check_has_values(matrix);
  check_columns(k);
  product_request request;
  request.k = k;
  request.order = parse_layout(layout_name);
  request.parameters = complete_parameters(kernel, parameters);
  if (perm) {
    if (perm->ndim() != 1) throw error(error_kind::parameter, "perm", -1, "perm must be one-dimensional");
    request.perm = {perm->data(), static_cast<std::size_t>(perm->size())};
    validate_permutation(request.perm, matrix.view.num_rows);
  }
  return request;
}

std::unique_ptr<bound_plan> prepare(const std::string& op_name, const csr_holder& matrix, const std::string& format,
                                    const std::string& kernel_name, std::int64_t k, const std::string& layout_name,
                                    const parameter_values& parameters, const std::optional<permutation_array>& perm,
                                    int device, const py::object& allocate, const std::optional<resident_csr>& resident,
                                    const std::optional<permutation_array>& block_threads_per_row) {
  const operation op = parse_operation(op_name);
  const product_kernel& kernel = find_kernel(op, format, kernel_name);
  product_request request = make_request(matrix, kernel, k, layout_name, parameters, perm);
  if (op == operation::spmv && k != 1) throw error(error_kind::parameter, "k", -1, "k must be 1 for SpMV");
  if (resident) {
    if (resident->device != device) throw error(error_kind::device, "resident", -1, "the matrix is on another device");
    request.resident = resident->matrix;
  }
  if (block_threads_per_row) {
    request.inputs["block_threads_per_row"] = {block_threads_per_row->data(),
                                               static_cast<std::size_t>(block_threads_per_row->size())};
  }
  const device_allocator allocator = make_allocator(allocate);
  std::unique_ptr<product_plan> plan;
  {
    const py::gil_scoped_release release;
    plan = warploom::prepare(kernel, matrix.view, request, device, allocator);
  }
  return std::make_unique<bound_plan>(matrix, op, request.order, device, std::move(plan));
}

std::string unsupported_reason(const std::string& op, const csr_holder& matrix, const std::string& format,
                               const std::string& kernel_name, std::int64_t k, const std::string& layout_name,
                               const parameter_values& parameters, const std::optional<permutation_array>& perm) {
  const product_kernel& kernel = find_kernel(parse_operation(op), format, kernel_name);
  return warploom::reason_against(kernel, matrix.view, make_request(matrix, kernel, k, layout_name, parameters, perm));
}

// ---- Reference

py::tuple reference(const csr_holder& matrix, const py::array& B) {
  check_has_values(matrix);
  const bool row_major = B.ndim() != 2 || leading_dimension(B, layout::row_major) >= 0;
  const layout order = row_major ? layout::row_major : layout::column_major;
  const dense_view B_view = view_dense(B, order, matrix.view.dtype, "B");
  check_shape(B_view, matrix.view.num_cols, B_view.num_cols, "B");
  py::array_t<double> C({matrix.view.num_rows, B_view.num_cols});
  py::array_t<double> absolute({matrix.view.num_rows, B_view.num_cols});
  double* const C_data = C.mutable_data();
  double* const absolute_data = absolute.mutable_data();
  {
    const py::gil_scoped_release release;
    reference_product(matrix.view, B_view, order, C_data, absolute_data);
  }
  return py::make_tuple(C, absolute);
}

std::int64_t floor_bytes(const csr_holder& matrix, std::int64_t k) {
  check_columns(k);
  const py::gil_scoped_release release;
  return product_floor_bytes(matrix.view, k, matrix.view.dtype);
}

}  // namespace

py::object wrap_spmv_plan(const csr_holder& matrix, int device, std::unique_ptr<product_plan> plan) {
  return py::cast(std::make_unique<bound_plan>(matrix, operation::spmv, layout::row_major, device, std::move(plan)));
}

void bind_products(py::module_& module) {
  module.def("kernels", &describe_kernels, py::arg("op"), "The registry of an operation: one dict per kernel.");
  py::class_<resident_csr>(module, "DeviceCsr",
                           "A CSR matrix in the memory of a GPU, shared by the plans made from it.")
      .def_property_readonly("nbytes", [](const resident_csr& m) { return device_csr_bytes(*m.matrix); });
  module.def("upload_csr", &upload, py::arg("matrix"), py::arg("device"), py::arg("allocate") = py::none(),
             "Copy a matrix to the memory of a GPU.");
  py::class_<bound_plan>(module, "ProductPlan", "A kernel prepared for one matrix on one device.")
      .def_property_readonly("nbytes", &bound_plan::bytes, "Memory the plan holds on its device.")
      .def("run_host", &bound_plan::run_host, py::arg("B").noconvert(), py::arg("C").noconvert(),
           "Overwrite C with the product of the matrix and B, both host arrays; complete on return.")
      .def("run_device", &bound_plan::run_device, py::arg("B"), py::arg("ldb"), py::arg("C"), py::arg("ldc"),
           py::arg("k"), py::arg("stream"),
           "Enqueue the product of operands in device memory, given by their addresses.")
      .def(
          "time_conversion",
          [](bound_plan& plan, int warmup, int repeats) {
            return to_numpy(plan.time_conversion({false, warmup, repeats, 1e3, repeats}));
          },
          py::kw_only(), py::arg("warmup"), py::arg("repeats"),
          "Microseconds of each conversion from CSR on the device; empty if the format is not made there.")
      .def(
          "time_device",
          [](bound_plan& plan, std::uintptr_t B, std::int64_t ldb, std::uintptr_t C, std::int64_t ldc, std::int64_t k,
             std::uintptr_t stream, bool cold, int warmup, int repeats, double budget_ms, int min_repeats) {
            return to_numpy(
                plan.time_device(B, ldb, C, ldc, k, stream, {cold, warmup, repeats, budget_ms, min_repeats}));
          },
          py::arg("B"), py::arg("ldb"), py::arg("C"), py::arg("ldc"), py::arg("k"), py::arg("stream"), py::kw_only(),
          py::arg("cold"), py::arg("warmup"), py::arg("repeats"), py::arg("budget_ms"), py::arg("min_repeats"),
          "Microseconds of each repeat, between events on the device.");
  module.def("prepare_product", &prepare, py::arg("op"), py::arg("matrix"), py::arg("format"), py::arg("kernel"),
             py::arg("k"), py::arg("layout"), py::arg("parameters"), py::arg("perm").none(true), py::arg("device"),
             py::arg("allocate") = py::none(), py::arg("resident") = py::none(),
             py::arg("block_threads_per_row") = py::none(),
             "Prepare a kernel for a matrix. `device` is the number of a GPU, or -1 for the CPU.");
  module.def("unsupported_reason", &unsupported_reason, py::arg("op"), py::arg("matrix"), py::arg("format"),
             py::arg("kernel"), py::arg("k"), py::arg("layout"), py::arg("parameters"), py::arg("perm").none(true),
             "Why the kernel cannot run this request, or the empty string.");
  module.def("reference_product", &reference, py::arg("matrix"), py::arg("B"),
             "The product and |A| |B|, both summed in float64.");
  module.def("product_floor_bytes", &floor_bytes, py::arg("matrix"), py::arg("k"),
             "Fewest bytes a product can move: A in CSR, the rows of B it refers to, and C, once each.");
}

}  // namespace warploom::python
