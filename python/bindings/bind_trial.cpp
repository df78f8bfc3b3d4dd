// Preparing, checking and timing candidates one by one, as Python sees it.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bound_plan.hpp"
#include "bound_problem.hpp"
#include "common.hpp"
#include "host_operands.hpp"
#include "planner/trial.hpp"
#include "warploom/candidate.hpp"
#include "warploom/error.hpp"
#include "warploom/permutation.hpp"
#include "warploom/plan.hpp"

namespace warploom::python {
namespace {

// A trial with the problem that it refers to.
struct bound_trial {
  std::shared_ptr<bound_problem> of;
  std::unique_ptr<trial> operands;
};

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

}  // namespace

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

}  // namespace warploom::python
