// Problems, as Python sees them: a matrix in host memory or on a GPU, and what it is multiplied with.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "bound_problem.hpp"
#include "common.hpp"
#include "csr_tensors.hpp"
#include "host_operands.hpp"
#include "planner/trial.hpp"
#include "warploom/candidate.hpp"
#include "warploom/device.hpp"
#include "warploom/error.hpp"
#include "warploom/plan.hpp"

namespace warploom::python {
namespace {

// Memory from a Python callable: allocate(bytes) -> (pointer, owner), kept as long as the owner. May be copied and
// destroyed without the GIL.
device_allocator make_allocator(const py::object& allocate) {
  if (allocate.is_none()) return allocate_device_memory;
  return [held = hold(allocate)](std::size_t bytes) -> std::shared_ptr<void> {
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
    return {hold(owner), reinterpret_cast<void*>(pointer)};
  };
}

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

}  // namespace

void bind_problem(py::module_& module) {
  py::class_<resident_csr>(module, "DeviceCsr", "A CSR matrix in the memory of a GPU.")
      .def_property_readonly("nbytes", [](const resident_csr& m) { return device_csr_bytes(*m.matrix); });
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

}  // namespace warploom::python
