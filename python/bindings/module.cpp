// Table of contents of the extension module warploom._core.
#include "common.hpp"
#include "warploom/parallel.hpp"

// Nothing here relies on Python's global lock: what is shared has locks of its own, or is never changed.
PYBIND11_MODULE(_core, module, pybind11::mod_gil_not_used()) {
  using namespace warploom::python;
  module.doc() = "C++/CUDA core of warploom. Use the classes and functions of the warploom package instead.";
  module.attr("__version__") = WARPLOOM_VERSION;
  module.def("num_threads", &warploom::num_threads,
             "Threads a loop on the host may use: those set, else WARPLOOM_NUM_THREADS, else the processors allowed.");
  module.def("set_num_threads", &warploom::set_num_threads, py::arg("count"),
             "Set the number of host threads for the process; 0 returns to the default.");
  bind_errors(module);
  bind_csr_view(module);
  bind_predictor(module);
  bind_profile(module);  // after the models that it holds
  bind_model_inputs(module);
  bind_selector(module);  // after the profile that it takes
  bind_device(module);
  bind_candidates(module);
  bind_problem(module);  // after the candidates that it is asked about
  bind_plan(module);     // after the problem that it begins with
  bind_conjugate_gradients(module);
  bind_trial(module);     // after the candidates, problems and plans that it takes
  bind_planning(module);  // likewise
  bind_reference(module);
  bind_permutations(module);  // after the matrix in GPU memory that it takes
  bind_features(module);      // likewise
  bind_formats(module);       // likewise
  bind_sampled(module);       // likewise
  bind_sampled_pattern(module);
  bind_row_partition(module);
  bind_pattern_image(module);
  bind_matrix_market(module);
  bind_experiments(module);  // after the plans that it returns
}
