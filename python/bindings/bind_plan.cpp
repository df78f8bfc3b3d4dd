// Plans and why they are what they are, as Python sees them.
#include <pybind11/typing.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bound_plan.hpp"
#include "bound_problem.hpp"
#include "common.hpp"
#include "enqueueing.hpp"
#include "host_operands.hpp"
#include "warploom/candidate.hpp"
#include "warploom/error.hpp"
#include "warploom/plan.hpp"

namespace warploom::python {
namespace {

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
      .def_readonly("calls_of_budget", &explanation::calls_of_budget)
      .def_readonly("share_of_calls", &explanation::share_of_calls)
      .def_readonly("left_out", &explanation::left_out)
      .def_readonly("floor_bytes", &explanation::floor_bytes)
      .def_readonly("copy_bandwidth", &explanation::copy_bandwidth)
      .def_readonly("gpu", &explanation::gpu)
      .def_readonly("profile_note", &explanation::profile_note)
      .def_readonly("share_of_network", &explanation::share_of_network)
      .def_readonly("not_predicted", &explanation::not_predicted)
      .def_readonly("not_measured", &explanation::not_measured)
      .def_readonly("small_on_host", &explanation::small_on_host)
      .def_readonly("lacked_memory", &explanation::lacked_memory)
      .def_readonly("stands_in", &explanation::stands_in)
      .def_readonly("calls", &explanation::calls)
      .def_readonly("expected_loss", &explanation::expected_loss)
      .def_readonly("unsure", &explanation::unsure)
      .def_readonly("outside", &explanation::outside)
      .def_readonly("deciding_inputs", &explanation::deciding_inputs);
}

}  // namespace

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
      .def(
          "multiplies_on_host",
          [](const bound_plan& b, std::int64_t columns) { return b.planned->multiplies_on_host(columns); },
          py::arg("columns"), "Whether the CPU multiplies so many columns in host memory.")
      .def_property_readonly(
          "num_recorded", [](const bound_plan& b) { return b.planned->num_recorded(); },
          "Products that came again and again on a GPU and are launched as CUDA graphs.")
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

py::object wrap_spmv_plan(const csr_holder& matrix, int device, std::unique_ptr<product_plan> prepared) {
  problem of(matrix.view);
  of.op = operation::spmv;
  of.order = layout::column_major;
  of.device = device;
  auto planned = std::make_unique<plan>(of, candidate{}, std::move(prepared), std::vector<preparation_step>{});
  return py::cast(std::make_unique<bound_plan>(bound_plan{matrix, std::move(planned)}));
}

}  // namespace warploom::python
