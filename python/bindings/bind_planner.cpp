// Candidates, problems, plans and what measures them, as Python sees them.
#include <Python.h>
#include <pybind11/typing.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <tuple>

#include "common.hpp"
#include "csr_tensors.hpp"
#include "enqueueing.hpp"
#include "planner/predicting.hpp"
#include "planner/trial.hpp"
#include "warploom/candidate.hpp"
#include "warploom/conjugate_gradients.hpp"
#include "warploom/error.hpp"
#include "warploom/permutation.hpp"
#include "warploom/plan.hpp"
#include "warploom/planner.hpp"

namespace warploom::python {

value_type parse_value_type(const std::string& name) {
  for (const value_type type : {value_type::float16, value_type::bfloat16, value_type::float32, value_type::float64}) {
    if (name == name_of(type)) return type;
  }
  throw error(error_kind::parameter, "dtype", -1,
              "dtype must be 'float16', 'bfloat16', 'float32' or 'float64', got '" + name + "'");
}

namespace {

using permutation_array = py::array_t<std::int32_t, py::array::c_style>;

std::string shape_of(std::int64_t rows, std::int64_t columns) {
  return "(" + std::to_string(rows) + ", " + std::to_string(columns) + ")";
}

// ---- Kernels and candidates

// Values of parameters as Python gives them: integers of any kind, nothing else.
parameter_values cast_parameters(const product_kernel& kernel, const py::dict& given) {
  parameter_values values;
  for (const auto& [key, value] : given) {
    const auto name = py::cast<std::string>(key);
    if (!PyIndex_Check(value.ptr())) {
      complete_parameters(kernel, {{name, kernel.parameters.empty() ? 0 : kernel.parameters[0].default_value}});
      throw error(error_kind::parameter, name, -1,
                  name + "=" + py::cast<std::string>(py::repr(value)) + " is not an integer");
    }
    values[name] = py::cast<int>(py::module_::import("operator").attr("index")(value));
  }
  return values;
}

py::tuple in_order(const product_kernel& kernel, const parameter_values& values) {
  py::tuple pairs(kernel.parameters.size());
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    const std::string& name = kernel.parameters[i].name;
    pairs[i] = py::make_tuple(name, values.at(name));
  }
  return pairs;
}

template <class Items, class Name>
py::tuple names_of(const Items& items, Name name) {
  py::list list;
  for (const auto& item : items) list.append(name(item));
  return py::tuple(list);
}

py::tuple devices_of(const product_kernel& kernel) {
  if (kernel.runs_on_cpu()) return py::make_tuple("cuda", "cpu");
  return py::make_tuple("cuda");
}

bool parse_device_kind(const std::string& kind) {
  if (kind == "cuda") return true;
  if (kind == "cpu") return false;
  throw error(error_kind::parameter, "device", -1, "device must be 'cuda' or 'cpu', got '" + kind + "'");
}

std::vector<candidate> enumerate(const std::string& op, const std::optional<std::string>& order,
                                 const std::string& device, const std::optional<std::string>& dtype,
                                 const std::string& precision) {
  candidate_filter filter;
  if (order) filter.order = parse_layout(*order);
  filter.on_gpu = parse_device_kind(device);
  if (dtype) filter.dtype = parse_value_type(*dtype);
  filter.precision = parse_precision(precision);
  return enumerate_candidates(parse_operation(op), filter);
}

void bind_candidates(py::module_& module) {
  py::class_<parameter>(module, "Parameter", "One parameter of a kernel.")
      .def_readonly("name", &parameter::name)
      .def_readonly("default", &parameter::default_value)
      .def_property_readonly(
          "values", [](const parameter& p) { return py::tuple(py::cast(p.values)); }, "Accepted values.")
      .def_property_readonly(
          "tried", [](const parameter& p) { return py::tuple(py::cast(p.tried)); },
          "The values that selection by measurement tries on a GPU.")
      .def_readonly("on_cpu", &parameter::on_cpu, "Whether the CPU executor depends on it.")
      .def_readonly("meaning", &parameter::meaning);

  py::class_<product_kernel>(module, "Kernel", "One algorithm for one operation on one format.")
      .def_property_readonly("op", [](const product_kernel& k) { return name_of(k.op); })
      .def_readonly("format", &product_kernel::format)
      .def_readonly("name", &product_kernel::name)
      .def_readonly("summary", &product_kernel::summary)
      .def_readonly("source", &product_kernel::source, "The paper the idea is from, or \"own\".")
      .def_property_readonly(
          "layouts",
          [](const product_kernel& k) { return names_of(k.layouts, [](layout order) { return name_of(order); }); },
          "Layouts of the dense operands it works on: \"row\", \"column\".")
      .def_property_readonly("parameters",
                             [](const product_kernel& k) {
                               return names_of(k.parameters, [](const parameter& p) { return py::cast(p); });
                             })
      .def_property_readonly(
          "inputs",
          [](const product_kernel& k) {
            py::dict found;
            for (const kernel_input& input : k.inputs) found[py::str(input.name)] = input.meaning;
            return found;
          },
          "Arrays it takes beside the matrix: name and meaning.")
      .def_readonly("permutes", &product_kernel::permutes, "Whether a row permutation makes sense with it.")
      .def_readonly("reproducible", &product_kernel::reproducible, "Whether every run gives bitwise the same result.")
      .def_readonly("vendor", &product_kernel::vendor, "Whether it is the vendor's library.")
      .def_readonly("compared_fully", &product_kernel::compared_fully,
                    "Whether tables compare every setting, not only the default one.")
      .def_readonly("for_large", &product_kernel::for_large,
                    "Whether plans compare it with what is predicted for a matrix of 10^6 nonzeros and more where "
                    "models have seen none of the size.")
      .def_property_readonly("devices", &devices_of, "Where it runs: \"cuda\", \"cpu\".")
      .def_property_readonly(
          "dtypes",
          [](const product_kernel& k) { return names_of(k.dtypes, [](value_type type) { return name_of(type); }); },
          "Value types it works on.")
      .def_property_readonly(
          "precision", [](const product_kernel& k) { return name_of(k.precision); },
          "\"full\", or \"tf32\": it rounds float32 to TF32, and is considered only where that is asked for.")
      .def_readonly("from_device", &product_kernel::from_device,
                    "Whether preparing it on a GPU starts from the CSR matrix in the memory of that GPU.")
      .def(
          "complete",
          [](const product_kernel& k, const py::dict& given) {
            const parameter_values complete = complete_parameters(k, cast_parameters(k, given));
            return py::dict(in_order(k, complete));
          },
          py::arg("given"), "All parameters, defaults filled in.")
      .def("__eq__",
           [](const product_kernel& a, const py::object& b) {
             return py::isinstance<product_kernel>(b) && &a == &b.cast<const product_kernel&>();
           })
      .def("__hash__", [](const product_kernel& k) { return reinterpret_cast<std::uintptr_t>(&k) >> 4; })
      .def("__repr__",
           [](const product_kernel& k) { return std::string("<Kernel ") + name_of(k.op) + " " + k.label() + ">"; });
  module.def(
      "kernels",
      [](const std::string& op) {
        py::list found;
        for (const product_kernel& k : kernels(parse_operation(op))) {
          found.append(py::cast(k, py::return_value_policy::reference));
        }
        return py::tuple(found);
      },
      py::arg("op"), "The registered kernels of an operation.");
  module.def(
      "find_kernel",
      [](const std::string& op, const std::string& format, const std::string& name) -> const product_kernel& {
        return find_kernel(parse_operation(op), format, name);
      },
      py::arg("op"), py::arg("format"), py::arg("name"), py::return_value_policy::reference,
      "The kernel of that name.");

  py::class_<candidate>(module, "Candidate",
                        "Everything needed to run a product, except the matrix. Compares and hashes by name.")
      .def_static(
          "make",
          [](const product_kernel& kernel, const std::string& permutation, const py::object& parameters) {
            const auto given = parameters.is_none() ? py::dict() : py::dict(parameters);
            return make_candidate(kernel, permutation, cast_parameters(kernel, given));
          },
          py::arg("kernel"), py::arg("permutation") = "none", py::arg("parameters") = py::none(),
          "Complete the parameters.")
      .def_property_readonly(
          "kernel", [](const candidate& c) -> const product_kernel& { return *c.kernel; },
          py::return_value_policy::reference)
      .def_readonly("permutation", &candidate::permutation)
      .def_property_readonly(
          "parameters", [](const candidate& c) { return in_order(*c.kernel, c.parameters); },
          "All of them, as pairs of name and value in the kernel's order.")
      .def_property_readonly("name", &candidate::name, "The stable name.")
      .def_property_readonly("has_defaults", &candidate::has_default_parameters,
                             "Whether all parameters are at their default.")
      .def("__eq__",
           [](const candidate& a, const py::object& b) {
             return py::isinstance<candidate>(b) && a == b.cast<const candidate&>();
           })
      .def("__hash__", [](const candidate& c) { return std::hash<std::string>{}(c.name()); })
      .def("__str__", &candidate::name)
      .def("__repr__", [](const candidate& c) { return "<Candidate " + c.name() + ">"; });
  module.def(
      "parse_candidate", [](const std::string& name) { return parse_candidate(name); }, py::arg("name"),
      "The candidate of that name.");
  module.def("enumerate_candidates", &enumerate, py::arg("op"), py::arg("layout").none(true), py::arg("device"),
             py::arg("dtype").none(true), py::arg("precision") = "full",
             "Every tried setting in the caller's row order, then every row permutation with default parameters.");
  module.def(
      "matches", [](const std::string& name, const name_patterns& patterns) { return matches(name, patterns); },
      py::arg("name"), py::arg("patterns").none(true), "Whether a name matches one of the shell-style patterns.");
  module.def(
      "baseline_kernel",
      [](const std::string& op, const std::string& order) -> const product_kernel& {
        return baseline_kernel(parse_operation(op), parse_layout(order));
      },
      py::arg("op"), py::arg("layout"), py::return_value_policy::reference,
      "The kernel that plain CSR means: what speedups are over.");
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
                std::string(name) + " must be an aligned " + name_of(order) + "-major array (" +
                    (order == layout::row_major ? "C" : "Fortran") + " order, padding between the " + name_of(order) +
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

void check_has_values(const csr_holder& matrix) {
  if (matrix.data) return;
  throw error(error_kind::invalid_matrix, "data", -1, "the matrix is a pattern without values; a product needs them");
}

// ---- Problems

// Memory from a Python callable: allocate(bytes) -> (pointer, owner), kept as long as the owner. May be copied and
// destroyed without the GIL.
device_allocator make_allocator(const py::object& allocate) {
  if (allocate.is_none()) return allocate_device_memory;
  const std::shared_ptr<py::object> held(new py::object(allocate), [](py::object* given) {
    const py::gil_scoped_acquire acquire;
    delete given;
  });
  return [held](std::size_t bytes) -> std::shared_ptr<void> {
    device_allocation_may_fail(bytes);
    const py::gil_scoped_acquire acquire;
    py::object made;
    for (bool again = false; !made; again = true) {
      try {
        made = (*held)(bytes);
      } catch (py::error_already_set& failure) {
        // torch.OutOfMemoryError, cupy.cuda.memory.OutOfMemoryError: another candidate may take less.
        const std::string type = py::str(failure.type().attr("__name__"));
        if (type != "OutOfMemoryError" && !failure.matches(PyExc_MemoryError)) throw;
        if (again) throw error(error_kind::out_of_memory, "", -1, py::str(failure.value()));
        const py::gil_scoped_release release;
        release_unused_memory();  // which the framework cannot do
      }
    }
    const auto [pointer, owner] = py::cast<std::pair<std::uintptr_t, py::object>>(made);
    auto* kept = new py::object(owner);
    return std::shared_ptr<void>(reinterpret_cast<void*>(pointer), [kept](void*) {
      const py::gil_scoped_acquire again;
      delete kept;
    });
  };
}

const char* name_of(cache_state cache) { return cache == cache_state::warm ? "warm" : "cold"; }

cache_state parse_cache(const std::string& name) {
  if (name == "warm") return cache_state::warm;
  if (name == "cold") return cache_state::cold;
  throw error(error_kind::parameter, "cache", -1, "cache must be one of warm, cold, got '" + name + "'");
}

// A problem with the arrays that it looks at.
struct bound_problem {
  csr_holder matrix;  // of a matrix in host memory
  problem given;
  py::object owner;  // of the arrays of a matrix in GPU memory
};

void describe(problem& given, const std::string& op, std::int64_t k, const std::string& order,
              const std::string& cache) {
  given.op = parse_operation(op);
  given.k = k;
  given.order = parse_layout(order);
  given.cache = parse_cache(cache);
  validate(given);
}

std::unique_ptr<bound_problem> make_problem(csr_holder matrix, const std::string& op, std::int64_t k,
                                            const std::string& order, const std::string& cache, int device,
                                            const py::object& allocate) {
  check_has_values(matrix);
  auto bound = std::make_unique<bound_problem>(bound_problem{std::move(matrix), {}, py::none()});
  bound->given = problem(bound->matrix.view);
  bound->given.device = device;
  bound->given.allocate = make_allocator(allocate);
  describe(bound->given, op, k, order, cache);
  return bound;
}

bool is_wide(int bytes, const char* argument) {
  if (bytes == 4 || bytes == 8) return bytes == 8;
  throw error(error_kind::dtype, argument, -1, std::string(argument) + " must be int32 or int64");
}

// An array of another library in the memory of a GPU: its address, its size and the bytes of an element.
using foreign_array = std::tuple<std::uintptr_t, std::int64_t, int>;

std::shared_ptr<bound_problem> make_problem_on_gpu(const foreign_array& indptr, const foreign_array& indices,
                                                   const foreign_array& data, const std::string& dtype,
                                                   std::int64_t num_rows, std::int64_t num_cols, const std::string& op,
                                                   std::int64_t k, const std::string& order, const std::string& cache,
                                                   int device, std::uintptr_t stream, const py::object& allocate,
                                                   const py::object& owner) {
  const auto& [offsets, num_offsets, offset_bytes] = indptr;
  const auto& [columns, num_columns, column_bytes] = indices;
  const auto& [values, num_values, value_bytes] = data;
  if (num_offsets != num_rows + 1) {
    throw error(
        error_kind::invalid_matrix, "indptr", -1,
        "indptr must have rows + 1 = " + std::to_string(num_rows + 1) + " entries, got " + std::to_string(num_offsets));
  }
  device_csr_view where;
  where.device = device;
  where.num_rows = num_rows;
  where.num_cols = num_cols;
  where.num_indices = num_columns;
  where.num_values = num_values;
  where.indptr = reinterpret_cast<const void*>(offsets);
  where.indices = reinterpret_cast<const void*>(columns);
  where.data = reinterpret_cast<const void*>(values);
  where.wide_indptr = is_wide(offset_bytes, "indptr");
  where.wide_indices = is_wide(column_bytes, "indices");
  where.dtype = parse_value_type(dtype);
  if (static_cast<std::size_t>(value_bytes) != size_of(where.dtype)) {
    throw error(error_kind::dtype, "data", -1, "data must be " + dtype);
  }
  where.stream = reinterpret_cast<CUstream_st*>(stream);
  const device_allocator memory = make_allocator(allocate);
  auto bound = std::make_shared<bound_problem>();
  {
    const py::gil_scoped_release release;
    bound->given = problem(where, memory);
  }
  describe(bound->given, op, k, order, cache);
  bound->owner = owner;
  return bound;
}

// None where view_csr_tensors has nothing.
std::shared_ptr<bound_problem> make_problem_of_tensors(py::handle A, const std::optional<std::string>& dtype,
                                                       const std::string& op, std::int64_t k, const std::string& order,
                                                       const std::string& cache, int device) {
  std::optional<value_type> wanted;
  if (dtype) wanted = parse_value_type(*dtype);
  std::optional<csr_tensors> seen = view_csr_tensors(A, device, wanted);
  if (!seen) return nullptr;
  auto bound = std::make_shared<bound_problem>();
  {
    const py::gil_scoped_release release;
    bound->given = problem(seen->matrix, seen->allocate);
  }
  describe(bound->given, op, k, order, cache);
  bound->owner = std::move(seen->owner);
  return bound;
}

// The matrix of a problem, copied to host memory if it is on a GPU.
csr_holder matrix_of(const bound_problem& bound) {
  if (bound.given.in_host_memory()) return bound.matrix;
  const csr_view* view = nullptr;
  {
    const py::gil_scoped_release release;
    view = &bound.given.matrix();
  }
  const auto owner = [&] {  // copies of a problem share the matrix
    return py::capsule(new problem(bound.given), [](void* p) { delete static_cast<problem*>(p); });
  };
  csr_holder holder;
  holder.indptr = py::array_t<std::int64_t>(view->num_rows + 1, view->indptr, owner());
  holder.indices = py::array_t<std::int32_t>(view->nnz(), view->indices, owner());
  holder.data = py::array(numpy_dtype(view->dtype), {view->nnz()}, {}, view->data, owner());
  holder.view = *view;
  return holder;
}

// All that a plan says of its problem: Python asks once, as each question takes microseconds where caches are cold.
using problem_facts = py::typing::Tuple<py::str, py::typing::Tuple<py::int_, py::int_>, py::int_, py::dtype, py::int_,
                                        py::str, py::str, py::str>;

problem_facts facts_of(const bound_problem& bound) {
  const problem& given = bound.given;
  return py::make_tuple(name_of(given.op), py::make_tuple(given.num_rows(), given.num_cols()), given.nnz(),
                        numpy_dtype(given.dtype()), given.k, name_of(given.order), name_of(given.cache),
                        name_of(given.precision));
}

void bind_problem(py::module_& module) {
  py::class_<bound_problem, std::shared_ptr<bound_problem>>(module, "Problem", "What is to be multiplied, and where.")
      .def(py::init(&make_problem), py::arg("matrix"), py::arg("op"), py::arg("k"), py::arg("layout"), py::arg("cache"),
           py::arg("device"), py::arg("allocate") = py::none(),
           "`device` is the number of a GPU, or -1 for the CPU; `allocate(bytes)` returns an address and its owner.")
      .def_static("on_gpu", &make_problem_on_gpu, py::arg("indptr"), py::arg("indices"), py::arg("data"),
                  py::arg("dtype"), py::arg("num_rows"), py::arg("num_cols"), py::arg("op"), py::arg("k"),
                  py::arg("layout"), py::arg("cache"), py::arg("device"), py::arg("stream"),
                  py::arg("allocate") = py::none(), py::arg("owner") = py::none(),
                  "The arrays of a CSR matrix in the memory of a GPU, each as its address, its size and the bytes of "
                  "an element. They are to stay as they are until all plans are made.")
      .def_static("of_tensors", &make_problem_of_tensors, py::arg("A"), py::arg("dtype").none(true), py::arg("op"),
                  py::arg("k"), py::arg("layout"), py::arg("cache"), py::arg("device"),
                  "As on_gpu, of a CSR tensor of PyTorch or a warploom.CSR of three tensors; None for other matrices, "
                  "and unless the tensors can be taken as they are. `dtype` is that of the product or None.")
      .def_property_readonly("matrix", &matrix_of, "In host memory, where a matrix that is on a GPU is copied.")
      .def_property_readonly(
          "shape", [](const bound_problem& p) { return py::make_tuple(p.given.num_rows(), p.given.num_cols()); })
      .def_property_readonly("nnz", [](const bound_problem& p) { return p.given.nnz(); })
      .def_property_readonly("op", [](const bound_problem& p) { return name_of(p.given.op); })
      .def_property_readonly("k", [](const bound_problem& p) { return p.given.k; })
      .def_property_readonly("layout", [](const bound_problem& p) { return name_of(p.given.order); })
      .def_property_readonly("cache", [](const bound_problem& p) { return name_of(p.given.cache); })
      .def_property(
          "precision", [](const bound_problem& p) { return name_of(p.given.precision); },
          [](bound_problem& p, const std::string& precision) {
            problem changed = p.given;  // shares the matrix
            changed.precision = parse_precision(precision);
            validate(changed);
            p.given = std::move(changed);
          },
          "The least of candidates that are not named: \"full\" or \"tf32\".")
      .def_property_readonly("device", [](const bound_problem& p) { return p.given.device; })
      .def_property_readonly("dtype", [](const bound_problem& p) { return numpy_dtype(p.given.dtype()); })
      .def_property_readonly("facts", &facts_of, "op, shape, nnz, dtype, k, layout, cache and precision in one call.")
      .def(
          "resident",
          [](const bound_problem& p) {
            const py::gil_scoped_release release;
            return resident_csr{p.given.device, p.given.resident()};
          },
          "The matrix in the memory of the GPU, uploaded once.", py::keep_alive<0, 1>())
      .def(
          "is_redundant",
          [](const bound_problem& p, const candidate& tried) {
            return is_redundant(tried, p.given.summary(), p.given.k, p.given.order);
          },
          py::arg("candidate"), "Whether another candidate does the same work, or this one cannot pay off.")
      .def(
          "reason_against",
          [](const bound_problem& p, const candidate& tried) { return reason_against(tried, p.given); },
          py::arg("candidate"), "Why the candidate cannot run this problem, or the empty string.");
}

// ---- Plans

struct bound_plan {
  csr_holder matrix;  // a plan may look at its arrays
  std::unique_ptr<plan> planned;
  enqueueing turns{};
};

// A text: graphs of PyTorch take numbers for sizes that may change.
std::string next_name() {
  static std::atomic<std::int64_t> made{0};
  return std::to_string(++made);
}

using plan_beginning = py::typing::Tuple<py::str, py::function, py::bool_, problem_facts>;

void check_output(const py::array& B, const py::array& C) {
  if (!C.writeable()) throw error(error_kind::parameter, "C", -1, "C is read-only");
  if (py::cast<bool>(py::module_::import("numpy").attr("shares_memory")(B, C))) {
    throw error(error_kind::parameter, "C", -1, "C shares memory with B, which is still read while C is written");
  }
}

void run_host(bound_plan& bound, const py::array& B, py::array& C) {
  plan& planned = *bound.planned;
  const dense_view B_view = view_dense(B, planned.order(), planned.dtype(), "B");
  const dense_view C_view = view_dense(C, planned.order(), planned.dtype(), "C");
  check_output(B, C);
  const one_at_a_time turn(bound.turns);
  const py::gil_scoped_release release;  // a thread that waits for another one must not hold it
  planned.multiply_on_host(B_view, C_view);
}

// Operands in device memory by their addresses. Shapes are the Python layer's to check.
struct device_operands {
  std::uintptr_t B;
  std::int64_t ldb;
  std::uintptr_t C;
  std::int64_t ldc;
  std::int64_t k;

  dense_view view_B(std::int64_t rows) const { return {reinterpret_cast<void*>(B), rows, k, ldb}; }
  dense_view view_C(std::int64_t rows) const { return {reinterpret_cast<void*>(C), rows, k, ldc}; }
};

void run_device(bound_plan& bound, const device_operands& given, std::uintptr_t stream) {
  plan& planned = *bound.planned;
  if (planned.device() < 0) {
    throw error(error_kind::device, "B", -1, "this plan was made for the CPU but B is in GPU memory");
  }
  const one_at_a_time turn(bound.turns);
  planned.multiply(given.view_B(planned.num_cols()), given.view_C(planned.num_rows()),
                   reinterpret_cast<CUstream_st*>(stream));
}

// An epilogue whose bias is given by its address; null: none.
epilogue make_epilogue(double alpha, double beta, std::uintptr_t bias, bool bias_is_column, bool relu) {
  return {alpha, beta, reinterpret_cast<const void*>(bias), bias_is_column, relu ? activation::relu : activation::none};
}

void finish_host(bound_plan& bound, const py::array& B, py::array& C, const epilogue& by) {
  plan& planned = *bound.planned;
  const dense_view B_view = view_dense(B, planned.order(), planned.dtype(), "B");
  const dense_view C_view = view_dense(C, planned.order(), planned.dtype(), "C");
  check_output(B, C);
  const one_at_a_time turn(bound.turns);
  const py::gil_scoped_release release;
  planned.multiply_on_host(B_view, C_view, by);
}

void finish_device(bound_plan& bound, const device_operands& given, const epilogue& by, std::uintptr_t stream) {
  plan& planned = *bound.planned;
  const one_at_a_time turn(bound.turns);
  planned.multiply(given.view_B(planned.num_cols()), given.view_C(planned.num_rows()), by,
                   reinterpret_cast<CUstream_st*>(stream));
}

// The result is what `dot` points to.
void dot_host(bound_plan& bound, const py::array& x, py::array& y, std::uintptr_t dot) {
  plan& planned = *bound.planned;
  const dense_view x_view = view_dense(x, planned.order(), planned.dtype(), "x");
  const dense_view y_view = view_dense(y, planned.order(), planned.dtype(), "y");
  check_output(x, y);
  const one_at_a_time turn(bound.turns);
  const py::gil_scoped_release release;
  planned.multiply_with_dot_on_host(x_view, y_view, reinterpret_cast<void*>(dot));
}

void dot_device(bound_plan& bound, const device_operands& given, std::uintptr_t dot, std::uintptr_t stream) {
  plan& planned = *bound.planned;
  const one_at_a_time turn(bound.turns);
  planned.multiply_with_dot(given.view_B(planned.num_cols()), given.view_C(planned.num_rows()),
                            reinterpret_cast<void*>(dot), reinterpret_cast<CUstream_st*>(stream));
}

void update_from_host(bound_plan& bound, const py::array& data) {
  plan& planned = *bound.planned;
  check_dtype(data, planned.dtype(), "data");
  const bool fits = data.ndim() == 1 && data.shape(0) == planned.nnz();
  const bool tight = data.size() < 2 || data.strides(0) == data.itemsize();
  const bool aligned = reinterpret_cast<std::uintptr_t>(data.data()) % data.itemsize() == 0;
  if (!fits || !tight || !aligned) {
    throw error(error_kind::shape, "data", -1,
                "data must be a contiguous, aligned array of " + std::to_string(planned.nnz()) + " values");
  }
  const void* values = data.data();
  const one_at_a_time turn(bound.turns);
  const py::gil_scoped_release release;
  planned.update_values_on_host(values);
}

void update_from_device(bound_plan& bound, std::uintptr_t data, std::uintptr_t stream) {
  plan& planned = *bound.planned;
  if (planned.device() < 0) {
    throw error(error_kind::device, "data", -1, "this plan was made for the CPU but data is in GPU memory");
  }
  const one_at_a_time turn(bound.turns);
  const py::gil_scoped_release release;  // it may convert the matrix again
  planned.update_values(reinterpret_cast<const void*>(data), reinterpret_cast<CUstream_st*>(stream));
}

// Milliseconds by name.
py::dict steps_of(const std::vector<preparation_step>& spent) {
  py::dict steps;
  for (const preparation_step& step : spent) steps[py::str(step.name)] = step.milliseconds;
  return steps;
}

const char* name_of_basis(explanation::basis basis) {
  switch (basis) {
    case explanation::basis::named:
      return "named";
    case explanation::basis::measured:
      return "measured";
    default:
      return "predicted";
  }
}

void bind_explanation(py::module_& module) {
  py::class_<candidate_row>(module, "Row", "What is known of one candidate. Numbers that are not known are NaN.")
      .def(py::init([](const std::string& name, double preparation_ms, double median_us, double p10_us, double p90_us,
                       double speedup, double floor_share, std::size_t bytes, const std::string& note,
                       double predicted_us, double break_even, double break_even_vendor) {
             return candidate_row{name,         preparation_ms, median_us,         p10_us, p90_us, speedup, floor_share,
                                  predicted_us, break_even,     break_even_vendor, bytes,  note};
           }),
           py::arg("candidate"), py::arg("preparation_ms") = candidate_row::unknown,
           py::arg("median_us") = candidate_row::unknown, py::arg("p10_us") = candidate_row::unknown,
           py::arg("p90_us") = candidate_row::unknown, py::arg("speedup") = candidate_row::unknown,
           py::arg("floor_share") = candidate_row::unknown, py::arg("bytes") = 0, py::arg("note") = "",
           py::arg("predicted_us") = candidate_row::unknown, py::arg("break_even") = candidate_row::unknown,
           py::arg("break_even_vendor") = candidate_row::unknown)
      .def_readonly("candidate", &candidate_row::name)
      .def_readonly("preparation_ms", &candidate_row::preparation_ms,
                    "Permutation, conversion and upload, in milliseconds.")
      .def_readonly("median_us", &candidate_row::median_us)
      .def_readonly("p10_us", &candidate_row::p10_us)
      .def_readonly("p90_us", &candidate_row::p90_us)
      .def_readonly("speedup", &candidate_row::speedup, "Over plain CSR in the caller's row order.")
      .def_readonly("floor_share", &candidate_row::floor_share, "Bandwidth floor over median time.")
      .def_readonly("bytes", &candidate_row::bytes, "Memory of the plan on its device.")
      .def_readonly("note", &candidate_row::note, "Why it was not measured, or that it was chosen.")
      .def_readonly("predicted_us", &candidate_row::predicted_us, "What a model says, where one was asked.")
      .def_readonly("break_even", &candidate_row::break_even,
                    "Products after which preparing this one instead of plain CSR has paid off; infinite if never.")
      .def_readonly("break_even_vendor", &candidate_row::break_even_vendor,
                    "The same instead of the fastest candidate of the vendor.");

  py::class_<explanation>(module, "Explanation", "Why a plan is what it is.")
      .def_property_readonly("based_on", [](const explanation& e) { return name_of_basis(e.based_on); })
      .def_readonly("rows", &explanation::rows)
      .def_readonly("chosen", &explanation::chosen)
      .def_readonly("baseline", &explanation::baseline)
      .def_readonly("vendor", &explanation::vendor)
      .def_property_readonly("spent", [](const explanation& e) { return steps_of(e.spent); })
      .def_readonly("budget", &explanation::budget)
      .def_readonly("left_out", &explanation::left_out)
      .def_readonly("floor_bytes", &explanation::floor_bytes)
      .def_readonly("copy_bandwidth", &explanation::copy_bandwidth)
      .def_readonly("gpu", &explanation::gpu)
      .def_readonly("profile_note", &explanation::profile_note)
      .def_readonly("share_of_network", &explanation::share_of_network)
      .def_readonly("not_predicted", &explanation::not_predicted)
      .def_readonly("not_measured", &explanation::not_measured)
      .def_readonly("lacked_memory", &explanation::lacked_memory)
      .def_readonly("stands_in", &explanation::stands_in)
      .def_readonly("calls", &explanation::calls)
      .def_readonly("expected_loss", &explanation::expected_loss)
      .def_readonly("unsure", &explanation::unsure)
      .def_readonly("outside", &explanation::outside)
      .def_readonly("deciding_inputs", &explanation::deciding_inputs);
}

void bind_plan(py::module_& module) {
  bind_explanation(module);
  module.def("next_name", &next_name, "A name that no other plan or operator of this process has.");
  py::class_<bound_plan>(module, "Plan", "A candidate prepared for one matrix on one device.")
      .def_property_readonly(
          "candidate",
          [](const bound_plan& b) -> py::object {
            if (b.planned->chosen().kernel == nullptr) return py::none();
            return py::cast(b.planned->chosen());
          },
          "What was chosen; None for kernels of experiments, which are in no registry.")
      .def_property_readonly(
          "nbytes",
          [](const bound_plan& b) {
            const py::gil_scoped_release release;  // it waits for updates
            return b.planned->bytes();
          },
          "Memory the plan holds on its device.")
      .def_property_readonly(
          "preparation_ms", [](const bound_plan& b) { return steps_of(b.planned->spent()); },
          "Milliseconds spent on each step of planning.")
      .def("explanation",
           [](bound_plan& b) {
             const py::gil_scoped_release release;  // another thread may be making it
             return b.planned->why();
           })
      .def(
          "begin",
          [](const py::object& self, const bound_problem& of) -> plan_beginning {
            auto& bound = self.cast<bound_plan&>();
            const py::function fast_path = make_fast_path(self, *bound.planned, bound.turns);
            return py::make_tuple(next_name(), fast_path, bound.planned->updatable(), facts_of(of));
          },
          py::arg("problem"),
          "What a plan in Python begins with, in one call: a name; a function of B and out (which may be None) that "
          "returns C = A B, a new array of the kind of B or out, and NotImplemented where the Python layer has to look "
          "at "
          "them; whether values may be updated; and the facts of its problem.")
      .def("run_host", &run_host, py::arg("B").noconvert(), py::arg("C").noconvert(),
           "Overwrite C with the product of the matrix and B, both host arrays; complete on return.")
      .def(
          "run_device",
          [](bound_plan& b, std::uintptr_t B, std::int64_t ldb, std::uintptr_t C, std::int64_t ldc, std::int64_t k,
             std::uintptr_t stream) { run_device(b, {B, ldb, C, ldc, k}, stream); },
          py::arg("B"), py::arg("ldb"), py::arg("C"), py::arg("ldc"), py::arg("k"), py::arg("stream"),
          "Enqueue the product of operands in device memory, given by their addresses.")
      .def(
          "finish_host",
          [](bound_plan& b, const py::array& B, py::array& C, double alpha, double beta, std::uintptr_t bias,
             bool bias_is_column,
             bool relu) { finish_host(b, B, C, make_epilogue(alpha, beta, bias, bias_is_column, relu)); },
          py::arg("B").noconvert(), py::arg("C").noconvert(), py::arg("alpha"), py::arg("beta"), py::arg("bias"),
          py::arg("bias_is_column"), py::arg("relu"),
          "C = activation(alpha A B + beta C + bias) on host arrays; `bias` is the address of a value for each column "
          "of C, or for each row, or 0.")
      .def(
          "finish_device",
          [](bound_plan& b, std::uintptr_t B, std::int64_t ldb, std::uintptr_t C, std::int64_t ldc, std::int64_t k,
             double alpha, double beta, std::uintptr_t bias, bool bias_is_column, bool relu, std::uintptr_t stream) {
            finish_device(b, {B, ldb, C, ldc, k}, make_epilogue(alpha, beta, bias, bias_is_column, relu), stream);
          },
          py::arg("B"), py::arg("ldb"), py::arg("C"), py::arg("ldc"), py::arg("k"), py::arg("alpha"), py::arg("beta"),
          py::arg("bias"), py::arg("bias_is_column"), py::arg("relu"), py::arg("stream"),
          "Enqueue the same for operands in device memory, given by their addresses.")
      .def("dot_host", &dot_host, py::arg("x").noconvert(), py::arg("y").noconvert(), py::arg("dot"),
           "y = A x and x . y, which is written to an address: float64 for values of float64, otherwise float32.")
      .def(
          "dot_device",
          [](bound_plan& b, std::uintptr_t x, std::int64_t ldx, std::uintptr_t y, std::int64_t ldy, std::uintptr_t dot,
             std::uintptr_t stream) { dot_device(b, {x, ldx, y, ldy, 1}, dot, stream); },
          py::arg("x"), py::arg("ldx"), py::arg("y"), py::arg("ldy"), py::arg("dot"), py::arg("stream"),
          "Enqueue the same in device memory.")
      .def("update_values_from_host", &update_from_host, py::arg("data").noconvert(),
           "Replace the values of the matrix; complete on return.")
      .def("update_values_from_device", &update_from_device, py::arg("data"), py::arg("stream"),
           "Enqueue the same for values in device memory, given by their address.")
      .def(
          "time_conversion",
          [](bound_plan& b, int warmup, int repeats) {
            std::vector<double> times;
            {
              const py::gil_scoped_release release;
              times = b.planned->time_conversion({false, warmup, repeats, 1e3, repeats});
            }
            return to_numpy(std::move(times));
          },
          py::kw_only(), py::arg("warmup"), py::arg("repeats"),
          "Microseconds of each conversion from CSR on the device; empty if the format is not made there.");
}

// ---- Steps of conjugate gradients

struct bound_steps {
  py::object owner;  // of the plan
  enqueueing* turns;
  std::unique_ptr<conjugate_gradients> steps;
};

conjugate_gradients_vectors vectors_at(const std::array<std::uintptr_t, 4>& addresses) {
  const auto at = [&](int i) { return reinterpret_cast<void*>(addresses[i]); };
  return {at(0), at(1), at(2), at(3)};
}

void bind_conjugate_gradients(py::module_& module) {
  py::class_<bound_steps>(module, "ConjugateGradients",
                          "Steps of conjugate gradients with a plan for vectors on a GPU.")
      .def(py::init([](py::object owner) {
             auto& bound = owner.cast<bound_plan&>();
             return bound_steps{std::move(owner), &bound.turns, std::make_unique<conjugate_gradients>(*bound.planned)};
           }),
           py::arg("plan"))
      .def(
          "start",
          [](bound_steps& b, const std::array<std::uintptr_t, 4>& vectors, std::uintptr_t stream) {
            const one_at_a_time turn(*b.turns);
            b.steps->start(vectors_at(vectors), reinterpret_cast<CUstream_st*>(stream));
          },
          py::arg("vectors"), py::arg("stream"),
          "Begin with the residual r; `vectors` are the addresses of x, r, p, q.")
      .def(
          "step",
          [](bound_steps& b, const std::array<std::uintptr_t, 4>& vectors, std::int64_t count, std::uintptr_t stream) {
            const one_at_a_time turn(*b.turns);
            const py::gil_scoped_release release;
            b.steps->step(vectors_at(vectors), count, reinterpret_cast<CUstream_st*>(stream));
          },
          py::arg("vectors"), py::arg("count"), py::arg("stream"), "Enqueue so many steps.")
      .def(
          "squared_residual",
          [](bound_steps& b, std::uintptr_t stream) {
            const py::gil_scoped_release release;
            return b.steps->squared_residual(reinterpret_cast<CUstream_st*>(stream));
          },
          py::arg("stream"), "r . r, for which it waits.")
      .def(
          "curvature",
          [](bound_steps& b, std::uintptr_t stream) {
            const py::gil_scoped_release release;
            return b.steps->curvature(reinterpret_cast<CUstream_st*>(stream));
          },
          py::arg("stream"), "p . A p of the last step, for which it waits.");
}

// ---- Measuring

// A trial with the problem that it refers to.
struct bound_trial {
  std::shared_ptr<bound_problem> of;
  std::unique_ptr<trial> operands;
};

kernel_inputs view_inputs(const std::map<std::string, permutation_array>& given) {
  kernel_inputs inputs;
  for (const auto& [name, values] : given) {
    if (values.ndim() != 1) throw error(error_kind::parameter, name, -1, name + " must be one-dimensional");
    inputs[name] = {values.data(), static_cast<std::size_t>(values.size())};
  }
  return inputs;
}

timed_permutation given_permutation(const bound_problem& of, const permutation_array& perm, double milliseconds) {
  if (perm.ndim() != 1) throw error(error_kind::parameter, "perm", -1, "perm must be one-dimensional");
  timed_permutation rows{"given", {perm.data(), perm.data() + perm.size()}, milliseconds};
  validate_permutation(rows.perm, of.given.num_rows());
  return rows;
}

std::unique_ptr<bound_plan> prepare_bound(const bound_problem& of, const candidate& chosen,
                                          const std::optional<std::pair<permutation_array, double>>& permutation,
                                          const std::map<std::string, permutation_array>& inputs) {
  const kernel_inputs viewed = view_inputs(inputs);
  std::unique_ptr<plan> planned;
  if (permutation) {
    const timed_permutation rows = given_permutation(of, permutation->first, permutation->second);
    const py::gil_scoped_release release;
    planned = prepare_candidate(of.given, chosen, rows, viewed);
  } else {
    const py::gil_scoped_release release;
    planned = prepare_candidate(of.given, chosen, viewed);
  }
  return std::make_unique<bound_plan>(bound_plan{of.matrix, std::move(planned)});
}

void bind_trial(py::module_& module) {
  py::class_<timing>(module, "Timing", "Repeated times, in microseconds.")
      .def_readonly("median", &timing::median)
      .def_readonly("p10", &timing::p10)
      .def_readonly("p90", &timing::p90)
      .def_readonly("repeats", &timing::repeats);
  module.def("prepare", &prepare_bound, py::arg("problem"), py::arg("candidate"), py::arg("permutation") = py::none(),
             py::arg("inputs") = py::dict(),
             "Prepare a candidate. `permutation` is its row permutation with the milliseconds that it took, if it was "
             "computed before.");
  py::class_<bound_trial>(module, "Trial", "Operands of a problem on its device, to check and time plans with.")
      .def(py::init([](const std::shared_ptr<bound_problem>& of) {
             const py::gil_scoped_release release;
             return bound_trial{of, std::make_unique<trial>(of->given)};
           }),
           py::arg("problem"))
      .def(
          "check",
          [](bound_trial& t, bound_plan& checked, bool rounds_sums) {
            const py::gil_scoped_release release;
            return t.operands->check(*checked.planned, rounds_sums);
          },
          py::arg("plan"), py::kw_only(), py::arg("rounds_sums") = false,
          "Compare a sample of the product with float64 sums; what is wrong, or the empty string. With `rounds_sums`, "
          "sums may be rounded to the value type with every product that is added.")
      .def(
          "time",
          [](bound_trial& t, bound_plan& timed, const std::string& cache, int repeats, int warmup, double budget_ms) {
            const cache_state state = parse_cache(cache);
            const py::gil_scoped_release release;
            return t.operands->time(timed.planned->kernel_plan(), state, repeats, warmup, budget_ms);
          },
          py::arg("plan"), py::kw_only(), py::arg("cache"), py::arg("repeats") = 30, py::arg("warmup") = 2,
          py::arg("budget_ms") = 50.0,
          "Time a plan: fewer repeats, but at least three, where they would take longer than the budget.");
  module.def(
      "copy_bandwidth",
      [](int device) {
        const py::gil_scoped_release release;
        return copy_bandwidth(device);
      },
      py::arg("device"), "Bytes per second, read plus written, of a large copy; -1 for the CPU. Measured once.");
}

// ---- Planning

progress_function call_progress(const py::object& given) {
  const std::shared_ptr<py::object> held(new py::object(given), [](py::object* object) {
    const py::gil_scoped_acquire acquire;
    delete object;
  });
  return [held](std::int64_t done, std::int64_t total, const std::string& name) {
    const py::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (!held->is_none()) (*held)(done, total, name);
  };
}

// A product that a Python callable computes: f(B, C) overwrites the host array C. The arrays are views of the operands.
class python_product final : public product_plan {
 public:
  python_product(py::object multiply, value_type dtype, layout order)
      : multiply_(std::move(multiply)), dtype_(dtype), order_(order) {}

  ~python_product() override {
    const py::gil_scoped_acquire acquire;
    multiply_ = {};
    B_ = {};
    C_ = {};
  }

  void run(const dense_view& B, const dense_view& C, CUstream_st*) override {
    const py::gil_scoped_acquire acquire;
    if (B.data != B_data_ || C.data != C_data_) {
      B_ = view(B);
      C_ = view(C);
      B_data_ = B.data;
      C_data_ = C.data;
    }
    multiply_(B_, C_);
  }

  std::size_t bytes() const override { return 0; }

 private:
  py::array view(const dense_view& operand) const {
    const auto size = static_cast<py::ssize_t>(size_of(dtype_));
    const py::ssize_t along = operand.leading_dimension * size;
    const bool by_row = order_ == layout::row_major;
    const std::vector<py::ssize_t> shape{operand.num_rows, operand.num_cols};
    const std::vector<py::ssize_t> strides{by_row ? along : size, by_row ? size : along};
    return py::array(numpy_dtype(dtype_), shape, strides, operand.data, py::none());
  }

  py::object multiply_;
  value_type dtype_;
  layout order_;
  void* B_data_ = nullptr;
  void* C_data_ = nullptr;
  py::object B_, C_;
};

std::vector<compared_product> make_compared(const py::dict& given, const problem& of) {
  std::vector<compared_product> made;
  for (const auto& [name, multiply] : given) {
    made.push_back(
        {py::cast<std::string>(name),
         std::make_shared<python_product>(py::reinterpret_borrow<py::object>(multiply), of.dtype(), of.order)});
  }
  return made;
}

// Options with the arrays that they refer to.
struct bound_options {
  plan_options options;
  std::map<std::string, permutation_array> arrays;
  bool updatable = false;
};

bound_options make_options(const std::string& select, double calls, bool verify, name_patterns patterns,
                           std::map<std::string, permutation_array> inputs, bool updatable, double budget) {
  bound_options made;
  made.options.select = select;
  made.options.calls = calls;
  made.options.verify = verify;
  made.options.patterns = std::move(patterns);
  made.options.budget = budget;
  made.options.progress = call_progress(py::none());
  made.arrays = std::move(inputs);
  made.options.inputs = view_inputs(made.arrays);
  made.updatable = updatable;
  return made;
}

std::unique_ptr<bound_plan> make_plan(planner& by, const bound_problem& of, const bound_options& how,
                                      const py::object& progress, const py::dict& compared) {
  std::optional<plan_options> changed;
  if (!progress.is_none() || !compared.empty()) {
    changed = how.options;
    changed->progress = call_progress(progress);
    changed->compared = make_compared(compared, of.given);
  }
  std::optional<problem> updatable;
  if (how.updatable) {
    updatable = of.given;  // shares the matrix
    updatable->updatable = true;
  }
  std::unique_ptr<plan> planned;
  {
    const py::gil_scoped_release release;
    planned = by.make(updatable ? *updatable : of.given, changed ? *changed : how.options);
  }
  return std::make_unique<bound_plan>(bound_plan{of.matrix, std::move(planned)});
}

void bind_planning(py::module_& module) {
  module.attr("DEFAULT_BUDGET") = default_budget;
  module.attr("MAX_MEASURED") = max_measured;  // candidates of an unsure prediction
  py::class_<bound_options>(module, "PlanOptions", "How plans are chosen.")
      .def(py::init(&make_options), py::kw_only(), py::arg("select") = "auto", py::arg("calls") = default_calls,
           py::arg("verify") = false, py::arg("patterns") = py::none(),
           py::arg("inputs") = std::map<std::string, permutation_array>(), py::arg("updatable") = false,
           py::arg("budget") = default_budget);
  py::class_<planner>(module, "Planner", "Plans products, with the profiles of some folders.")
      .def(py::init([](const std::vector<std::string>& folders, bool blend) {
             return std::make_unique<planner>(std::vector<std::filesystem::path>(folders.begin(), folders.end()),
                                              blend);
           }),
           py::arg("profile_folders"), py::kw_only(), py::arg("blend") = true)
      .def("plan", &make_plan, py::arg("problem"), py::arg("options"), py::arg("progress") = py::none(),
           py::arg("compared") = py::dict(),
           "Find the fastest candidate for a problem, and prepare it. `progress(done, total, candidate)` is called "
           "before a candidate is measured; `compared` are other products by their names.")
      .def(
          "predict",
          [](planner& p, const bound_problem& of, const std::string& gpu, double calls, const name_patterns& patterns) {
            plan_options options;
            options.select = "predict";
            options.calls = calls;
            options.patterns = patterns;
            const py::gil_scoped_release release;
            return p.predict(of.given, gpu, options);
          },
          py::arg("problem"), py::arg("gpu"), py::kw_only(), py::arg("calls") = default_calls,
          py::arg("patterns") = py::none(), "What would be chosen on a GPU that need not be there.")
      .def("take_warnings", &planner::take_warnings, "What is wrong with profiles that were left out, said once.");
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
  if (k < 1) throw error(error_kind::parameter, "k", -1, "k must be at least 1, got " + std::to_string(k));
  const py::gil_scoped_release release;
  return product_floor_bytes(matrix.view, k, matrix.view.dtype);
}

}  // namespace

py::object wrap_spmv_plan(const csr_holder& matrix, int device, std::unique_ptr<product_plan> prepared) {
  problem of(matrix.view);
  of.op = operation::spmv;
  of.order = layout::column_major;
  of.device = device;
  auto planned = std::make_unique<plan>(of, candidate{}, std::move(prepared), std::vector<preparation_step>{});
  return py::cast(std::make_unique<bound_plan>(bound_plan{matrix, std::move(planned)}));
}

void bind_planner(py::module_& module) {
  bind_candidates(module);
  py::class_<resident_csr>(module, "DeviceCsr", "A CSR matrix in the memory of a GPU.")
      .def_property_readonly("nbytes", [](const resident_csr& m) { return device_csr_bytes(*m.matrix); });
  bind_problem(module);
  bind_plan(module);
  bind_conjugate_gradients(module);
  bind_trial(module);
  bind_planning(module);
  module.def("reference_product", &reference, py::arg("matrix"), py::arg("B"),
             "The product and |A| |B|, both summed in float64.");
  module.def("product_floor_bytes", &floor_bytes, py::arg("matrix"), py::arg("k"),
             "Minimum number of bytes that a product moves: A in CSR, the rows of B it refers to, and C, once each.");
}

}  // namespace warploom::python
