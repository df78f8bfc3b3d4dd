// Solves A x = b by the method of conjugate gradients, with the products by warploom.
//
//   conjugate_gradients FILE [--cpu] [--tolerance T]
//
// FILE is a Matrix Market file of a symmetric positive definite matrix; b = A * ones, so that the solution is known.
// Runs on the first GPU, where vectors stay in its memory and the candidate is predicted by the installed profile, or
// on the CPU (without a GPU, or with --cpu), where candidates are measured. The exit code is 0 if the residual has been
// brought below T (1e-10) times the norm of b, 1 if it has not, and 2 for bad input.
//
// To build it:
//
//   cmake -S . -B build -DCMAKE_PREFIX_PATH=/where/warploom/is/installed && cmake --build build

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "matrix_market.hpp"
#include "vectors.hpp"
#include "warploom/warploom.hpp"

namespace {

struct command_line {
  std::string file;
  bool cpu = false;
  double tolerance = 1e-10;
};

constexpr const char* usage = "usage: conjugate_gradients FILE [--cpu] [--tolerance T]";

command_line parse(int argc, char** argv) {
  command_line given;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--cpu") {
      given.cpu = true;
    } else if (argument == "--tolerance" && i + 1 < argc) {
      const std::string_view value = argv[++i];
      const auto [stop, failure] = std::from_chars(value.data(), value.data() + value.size(), given.tolerance);
      if (failure != std::errc{} || stop != value.data() + value.size() || !(given.tolerance > 0)) {
        throw std::runtime_error("--tolerance takes a positive number");
      }
    } else if (given.file.empty() && !argument.starts_with("--")) {
      given.file = argument;
    } else {
      throw std::runtime_error(usage);
    }
  }
  if (given.file.empty()) throw std::runtime_error(usage);
  return given;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::unique_ptr<vectors> make_vectors([[maybe_unused]] bool on_gpu, std::int64_t size) {
#ifdef WITH_CUDA
  if (on_gpu) return device_vectors(size);
#endif
  return host_vectors(size);
}

// [plan]
std::unique_ptr<warploom::plan> make_plan(const warploom::csr_view& A, int device, double products) {
  warploom::validate(A);
  warploom::problem problem(A);
  problem.op = warploom::operation::spmv;
  problem.order = warploom::layout::column_major;
  problem.device = device;
  warploom::plan_options options;
  options.calls = products;  // the more of them, the more preparation pays off
  warploom::planner planner(warploom::default_profile_folders());
  return planner.make(problem, options);
}
// [plan]

std::string to_text(double value) {
  if (std::isnan(value)) return "-";  // not known
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

void print_choice(warploom::plan& plan) {
  constexpr std::size_t max_printed = 5;
  const warploom::explanation& why = plan.why();
  const bool predicted = why.based_on == warploom::explanation::basis::predicted;
  std::printf("chosen: %s, %s\n", why.chosen.c_str(),
              predicted ? ("predicted by the profile of " + why.gpu).c_str() : "measured");
  std::printf("  %12s %12s %15s  %s\n", "predicted us", "measured us", "preparation ms", "fastest candidates");
  for (std::size_t i = 0; i < std::min(max_printed, why.rows.size()); ++i) {
    const warploom::candidate_row& row = why.rows[i];
    std::printf("  %12s %12s %15s  %s\n", to_text(row.predicted_us).c_str(), to_text(row.median_us).c_str(),
                to_text(row.preparation_ms).c_str(), row.name.c_str());
  }
}

struct solution {
  int iterations = 0;
  bool converged = false;
  double residual = 0;  // |b - A x| / |b|
  double error = 0;     // max |x - 1|
};

// [solve]
solution solve(warploom::plan& A, vectors& space, double tolerance, int max_iterations) {
  const std::int64_t n = A.num_rows();
  const auto view = [n](const std::shared_ptr<double>& v) { return warploom::dense_view{v.get(), n, 1, n}; };
  const std::vector<double> zeros(n, 0.0);
  const auto ones = space.make(std::vector<double>(n, 1.0));
  const auto b = space.make(zeros), x = space.make(zeros);
  const auto r = space.make(zeros), p = space.make(zeros), Ap = space.make(zeros);
  A.multiply(view(ones), view(b));
  space.combine(1, b.get(), 0, r.get());
  space.combine(1, r.get(), 0, p.get());

  solution found;
  const double norm_b = std::sqrt(space.dot(b.get(), b.get()));
  double rr = norm_b * norm_b;
  for (found.converged = rr == 0; !found.converged && found.iterations < max_iterations; ++found.iterations) {
    A.multiply(view(p), view(Ap));
    const double curvature = space.dot(p.get(), Ap.get());
    if (!(curvature > 0)) break;  // A is not positive definite
    const double step = rr / curvature;
    space.combine(step, p.get(), 1, x.get());
    space.combine(-step, Ap.get(), 1, r.get());
    const double previous = std::exchange(rr, space.dot(r.get(), r.get()));
    space.combine(1, r.get(), rr / previous, p.get());
    found.converged = std::sqrt(rr) <= tolerance * norm_b;
  }

  // What was updated above drifts away from the residual of x.
  A.multiply(view(x), view(Ap));
  space.combine(1, b.get(), -1, Ap.get());
  if (norm_b > 0) found.residual = std::sqrt(space.dot(Ap.get(), Ap.get())) / norm_b;
  for (const double value : space.to_host(x.get())) found.error = std::max(found.error, std::abs(value - 1));
  return found;
}
// [solve]

int run(const command_line& given) {
  const sparse_matrix A = read_matrix_market(given.file);
  if (A.num_rows != A.num_cols || A.num_rows == 0) {
    throw std::runtime_error(given.file + ": a square matrix with at least one row is needed");
  }
  const warploom::cuda_info cuda = warploom::query_cuda();
  const bool on_gpu = !given.cpu && !cuda.devices.empty();
  std::printf("matrix: %lld rows, %lld nonzeros\n", static_cast<long long>(A.num_rows),
              static_cast<long long>(A.view().nnz()));
  std::printf("device: %s\n", on_gpu ? cuda.devices[0].name.c_str() : "CPU");

  // Without rounding, as many iterations as rows would do; most matrices need far fewer.
  const double expected_iterations = std::min<double>(A.num_rows, 1000);
  auto start = std::chrono::steady_clock::now();
  const auto plan = make_plan(A.view(), on_gpu ? 0 : -1, expected_iterations);
  const double planning = seconds_since(start);
  print_choice(*plan);

  const auto space = make_vectors(on_gpu, A.num_rows);
  start = std::chrono::steady_clock::now();
  const solution found = solve(*plan, *space, given.tolerance, 10'000);
  const double solving = seconds_since(start);
  std::printf("%s after %d iterations\n", found.converged ? "converged" : "not converged", found.iterations);
  std::printf("residual: %.2e\nerror: %.2e\n", found.residual, found.error);
  std::printf("planning: %.4f s\nsolving: %.4f s\n", planning, solving);
  return found.converged ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "conjugate_gradients: %s\n", failure.what());
    return 2;
  }
}
