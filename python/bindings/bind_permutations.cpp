#include <chrono>
#include <string>

#include "common.hpp"
#include "warploom/interruption.hpp"
#include "warploom/kernels/product.hpp"
#include "warploom/permutation.hpp"

namespace warploom::python {
namespace {

using int32_array = py::array_t<std::int32_t, py::array::c_style>;

std::span<const std::int32_t> as_span(const int32_array& array) {
  if (array.ndim() != 1) {
    throw error(error_kind::parameter, "perm", -1,
                "perm must be one-dimensional, got " + std::to_string(array.ndim()) + " dimensions");
  }
  return {array.data(), static_cast<std::size_t>(array.size())};
}

std::vector<std::string> permutation_names() {
  std::vector<std::string> names;
  for (const auto& algorithm : permutation_algorithms()) names.emplace_back(algorithm.name);
  return names;
}

// Lets Python handle signals now and then, and ends the computation if a handler raises, as that of Ctrl-C does.
class signal_check {
 public:
  void operator()() {
    if (++steps_ % 64 != 0) return;  // a step may be shorter than a look at the clock
    const auto now = clock::now();
    if (now < next_) return;
    next_ = now + interval;
    const py::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds interval{50};
  unsigned steps_ = 0;
  clock::time_point next_ = clock::now() + interval;
};

template <class Compute>
py::array_t<std::int32_t> without_gil(Compute&& compute) {
  row_permutation perm;
  {
    const py::gil_scoped_release release;
    const interruption_scope interruptible(signal_check{});
    perm = compute();
  }
  return to_numpy(std::move(perm));
}

py::array_t<std::int32_t> compute_permutation(const std::string& name, const csr_holder& matrix, int warps, int threads,
                                              int elements_per_cache_line) {
  const auto& algorithm = find_permutation(name);
  const geometry shape = make_geometry(warps, threads, elements_per_cache_line);
  return without_gil([&] { return algorithm.compute(matrix.view, shape); });
}

py::array_t<std::int32_t> compute_permutation_on_gpu(const std::string& name, const resident_csr& matrix, int warps,
                                                     int threads, int elements_per_cache_line) {
  const auto& algorithm = find_permutation(name);
  const geometry shape = make_geometry(warps, threads, elements_per_cache_line);
  std::vector<std::int32_t> perm;
  {
    const py::gil_scoped_release release;
    const device_guard guard(matrix.device);
    const device_permutation made = permute_on_gpu(algorithm, *matrix.matrix, shape, allocate_device_memory);
    perm = download_permutation(made, *matrix.matrix);
  }
  return to_numpy(std::move(perm));
}

py::array_t<std::int32_t> brute_force(const csr_holder& matrix, int warps, int threads, int elements_per_cache_line) {
  const geometry shape = make_geometry(warps, threads, elements_per_cache_line);
  return without_gil([&] { return cta_aware_by_brute_force(matrix.view, shape); });
}

py::array_t<std::int32_t> invert_permutation(const int32_array& perm) {
  const auto span = as_span(perm);
  return without_gil([&] {
    validate_permutation(span, static_cast<std::int64_t>(span.size()));
    return invert(span);
  });
}

py::tuple permute_symmetric(const csr_holder& matrix, const int32_array& perm) {
  const auto span = as_span(perm);
  symmetric_permutation permuted;
  {
    const py::gil_scoped_release release;
    const interruption_scope interruptible(signal_check{});
    permuted = permute_symmetrically(matrix.view, span);
  }
  return py::make_tuple(to_numpy(std::move(permuted.indptr)), to_numpy(std::move(permuted.indices)),
                        to_numpy(std::move(permuted.source)));
}

}  // namespace

void bind_permutations(py::module_& module) {
  module.def("permutation_names", &permutation_names);
  module.def(
      "permutation_searches", [](const std::string& name) { return find_permutation(name).searches; }, py::arg("name"),
      "Whether the algorithm looks for nearest rows.");
  module.def(
      "permutation_family", [](const std::string& name) { return std::string(name_of(find_permutation(name).family)); },
      py::arg("name"), "What the order is good for.");
  module.def(
      "permutation_is_symmetric", [](const std::string& name) { return find_permutation(name).symmetric; },
      py::arg("name"), "Whether the order is good for the columns of a square matrix too.");
  module.def(
      "permutation_summary", [](const std::string& name) { return std::string(find_permutation(name).summary); },
      py::arg("name"));
  module.def("compute_permutation", &compute_permutation, py::arg("name"), py::arg("matrix"), py::arg("warps"),
             py::arg("threads"), py::arg("elements_per_cache_line"));
  module.def("compute_permutation_on_gpu", &compute_permutation_on_gpu, py::arg("name"), py::arg("matrix"),
             py::arg("warps") = 32, py::arg("threads") = 32, py::arg("elements_per_cache_line") = 32,
             "The same permutation, computed where the matrix is, and copied to the host.");
  module.def(
      "permutation_runs_on_gpu",
      [](const std::string& name) { return find_permutation(name).compute_on_gpu != nullptr; }, py::arg("name"));
  module.def(
      "validate_permutation",
      [](const int32_array& perm, std::int64_t num_rows) { validate_permutation(as_span(perm), num_rows); },
      py::arg("perm"), py::arg("num_rows"));
  module.def("invert_permutation", &invert_permutation, py::arg("perm"));
  module.def("permute_symmetrically", &permute_symmetric, py::arg("matrix"), py::arg("perm"),
             "indptr and indices of P A P^T, and where in A each of its entries was.");
  module.def("_cta_aware_by_brute_force", &brute_force, py::arg("matrix"), py::arg("warps") = 32,
             py::arg("threads") = 32, py::arg("elements_per_cache_line") = 32,
             "\"cta-aware\" by comparing every two masks; for benchmarks and tests.");
}

}  // namespace warploom::python
