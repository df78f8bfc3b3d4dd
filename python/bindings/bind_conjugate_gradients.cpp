// Steps of conjugate gradients, as Python sees them.
#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "bound_plan.hpp"
#include "common.hpp"
#include "enqueueing.hpp"
#include "warploom/conjugate_gradients.hpp"

namespace warploom::python {
namespace {

struct bound_steps {
  py::object owner;  // of the plan
  enqueueing* turns;
  std::unique_ptr<conjugate_gradients> steps;
};

conjugate_gradients_vectors vectors_at(const std::array<std::uintptr_t, 4>& addresses) {
  const auto at = [&](int i) { return reinterpret_cast<void*>(addresses[i]); };
  return {at(0), at(1), at(2), at(3)};
}

}  // namespace

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

}  // namespace warploom::python
