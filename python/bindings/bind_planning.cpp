// Choosing candidates for problems, as Python sees it.
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bound_plan.hpp"
#include "bound_problem.hpp"
#include "common.hpp"
#include "host_operands.hpp"
#include "planner/predicting.hpp"
#include "warploom/plan.hpp"
#include "warploom/planner.hpp"

namespace warploom::python {
namespace {

progress_function call_progress(const py::object& given) {
  return [held = hold(given)](std::int64_t done, std::int64_t total, const std::string& name) {
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
                           std::map<std::string, permutation_array> inputs, bool updatable,
                           std::optional<double> budget, std::optional<bool> small_on_host) {
  bound_options made;
  made.options.select = select;
  made.options.calls = calls;
  made.options.verify = verify;
  made.options.patterns = std::move(patterns);
  made.options.budget = budget;
  made.options.small_on_host = small_on_host;
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

}  // namespace

void bind_planning(py::module_& module) {
  module.attr("DEFAULT_BUDGET") = default_budget;
  module.attr("MAX_MEASURED") = max_measured;  // candidates of an unsure prediction
  py::class_<bound_options>(module, "PlanOptions", "How plans are chosen.")
      .def(py::init(&make_options), py::kw_only(), py::arg("select") = "auto", py::arg("calls") = default_calls,
           py::arg("verify") = false, py::arg("patterns") = py::none(),
           py::arg("inputs") = std::map<std::string, permutation_array>(), py::arg("updatable") = false,
           py::arg("budget") = py::none(), py::arg("small_on_host") = py::none());
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

}  // namespace warploom::python
