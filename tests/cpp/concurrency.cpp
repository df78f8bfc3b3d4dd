// Several threads at once: what may be shared gives each of them the right result. ThreadSanitizer looks for races
// here.
#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "planner/problems.hpp"
#include "warploom/warploom.hpp"

namespace warploom {
namespace {

using test::small_matrix;

// Runs it on four threads, each with its number, and returns how many of them threw.
int on_four_threads(const std::function<void(int)>& body) {
  std::atomic<int> ready{0}, thrown{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      ++ready;
      while (ready < 4) std::this_thread::yield();
      try {
        body(number);
      } catch (...) {
        ++thrown;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

struct threads_for_scope {
  explicit threads_for_scope(int count) { set_num_threads(count); }
  ~threads_for_scope() { set_num_threads(0); }
};

std::vector<float> product(plan& prepared) {
  const std::vector<float> x(prepared.num_cols(), 1.0f);
  std::vector<float> y(prepared.num_rows());
  prepared.multiply_on_host({const_cast<float*>(x.data()), prepared.num_cols(), 1, prepared.num_cols()},
                            {y.data(), prepared.num_rows(), 1, prepared.num_rows()});
  return y;
}

// Sums of the rows, each value times a factor.
std::vector<float> sums(const csr_matrix& matrix, float factor = 1) {
  std::vector<float> y(matrix.num_rows);
  for (std::int64_t row = 0; row < matrix.num_rows; ++row) {
    for (std::int64_t j = matrix.indptr[row]; j < matrix.indptr[row + 1]; ++j) {
      y[row] += factor * matrix.view().values<float>()[j];
    }
  }
  return y;
}

TEST_CASE("threads share a plan, whatever its kernel") {
  const small_matrix A;
  const std::vector<float> expected = sums(A.csr);
  const threads_for_scope scope(3);
  for (const product_kernel& kernel : kernels(operation::spmv)) {
    if (!kernel.runs_on_cpu() || !kernel.works_on(value_type::float32)) continue;
    const problem given = A.spmv();
    if (!reason_against(kernel, given.matrix(), {1, given.order, make_candidate(kernel).parameters, {}, {}, {}})
             .empty()) {
      continue;
    }
    const auto shared = prepare_candidate(given, make_candidate(kernel));
    std::atomic<int> wrong{0};
    CHECK(on_four_threads([&](int) {
            for (int i = 0; i < 20; ++i) wrong += product(*shared) != expected;
          }) == 0);
    CAPTURE(kernel.label());
    CHECK(wrong == 0);
  }
}

TEST_CASE("products see the old values or the new ones while others update them") {
  const small_matrix A;
  problem given = A.spmv();
  given.updatable = true;
  planner planning({});
  plan_options options;
  for (const std::string name : {"spmv/none/csr/vector", "spmv/none/ell/vector", "spmv/none/bsr/vector"}) {
    options.select = name;
    const auto shared = planning.make(given, options);
    std::vector<float> doubled(given.nnz());
    for (std::int64_t j = 0; j < given.nnz(); ++j) doubled[j] = 2 * given.matrix().values<float>()[j];
    const std::vector<float> old_sums = sums(A.csr), new_sums = sums(A.csr, 2);
    std::atomic<int> wrong{0};
    CHECK(on_four_threads([&](int number) {
            for (int i = 0; i < 20; ++i) {
              if (number == 0) {
                shared->update_values_on_host(i % 2 ? given.matrix().data : doubled.data());
              } else {
                const std::vector<float> found = product(*shared);
                wrong += found != old_sums && found != new_sums;
              }
            }
          }) == 0);
    CAPTURE(name);
    CHECK(wrong == 0);
  }
}

TEST_CASE("threads share a planner and a problem") {
  const small_matrix A;
  const problem given = A.spmv();
  const std::vector<float> expected = sums(A.csr);
  planner planning({WARPLOOM_TEST_DATA});
  const threads_for_scope scope(2);
  std::atomic<int> wrong{0};
  CHECK(on_four_threads([&](int number) {
          plan_options options;
          options.select = number % 2 ? "measure" : "spmv/lpt/csr/vector";
          options.patterns = name_patterns{{"spmv/none/csr/scalar", "spmv/lpt/csr/vector"}};
          for (int i = 0; i < 2; ++i) {
            problem own = given;  // copies share the matrix
            const auto planned = planning.make(own, options);
            wrong += product(*planned) != expected;
            wrong += planned->why().chosen != planned->chosen().name();
          }
          planning.take_warnings();
        }) == 0);
  CHECK(wrong == 0);
}

TEST_CASE("threads analyse one matrix") {
  const small_matrix A;
  const threads_for_scope scope(3);
  std::vector<row_permutation> alone;
  for (const permutation_algorithm& algorithm : permutation_algorithms()) {
    alone.push_back(algorithm.compute(A.csr.view(), geometry{4, 4, 4}));
  }
  std::atomic<int> wrong{0};
  CHECK(on_four_threads([&](int number) {
          for (std::size_t i = 0; i < alone.size(); ++i) {
            const auto& algorithm = permutation_algorithms()[(i + number) % alone.size()];
            wrong += algorithm.compute(A.csr.view(), geometry{4, 4, 4}) != alone[(i + number) % alone.size()];
          }
          for (const feature_set& features : feature_sets()) {
            std::vector<double> values(features.names.size());
            features.compute(A.csr.view(), geometry{}, values.data());
          }
          for (const format_description& format : formats()) {
            wrong += store(format, A.csr.view(), {})->to_csr().indptr != A.csr.indptr;
          }
        }) == 0);
  CHECK(wrong == 0);
}

TEST_CASE("threads share a model") {
  const auto loaded = load_profile(WARPLOOM_TEST_DATA "/toy-profile.safetensors");
  const threads_for_scope scope(2);
  for (const auto& [name, trained] : loaded->models) {
    const std::vector<double> inputs(50 * trained->inputs().size(), 0.25);
    const auto predicted = [&, &shared = *trained] {
      std::vector<double> outputs(50 * shared.outputs().size());
      shared.evaluated().predict(inputs, outputs);
      return outputs;
    };
    const std::vector<double> expected = predicted();
    std::atomic<int> wrong{0};
    CHECK(on_four_threads([&](int) {
            for (int i = 0; i < 5; ++i) wrong += predicted() != expected;
          }) == 0);
    CHECK(wrong == 0);
  }
}

}  // namespace
}  // namespace warploom
