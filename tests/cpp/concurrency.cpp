// Several threads at once: what may be shared gives each of them the right result. ThreadSanitizer looks for races
// here.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/problems.hpp"
#include "support.hpp"
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

// Large enough that every loop is split among threads: their grains are up to 2^17 rows and 2^18 nonzeros. Rows of two
// to seven neighbouring columns and, every thousandth, of 12.
csr_matrix matrix_for_several_threads() {
  std::vector<std::vector<std::int32_t>> rows((1 << 17) + (1 << 14));
  const auto size = static_cast<std::int32_t>(rows.size());
  for (std::int32_t row = 0; row < size; ++row) {
    const std::int32_t length = row % 1000 == 7 ? 12 : row % 5 == 3 ? 0 : 2 + row % 6;
    for (std::int32_t j = 0; j < length; ++j) rows[row].push_back((row / 2 * 2 + (row % 9 == 0 ? 1001 * j : j)) % size);
  }
  csr_matrix made = test::make_csr(size, rows);
  for (std::int64_t j = 0; j < made.nnz(); ++j) {
    const float value = static_cast<float>(j % 1013 - 500) / 7;
    std::memcpy(made.data.data() + j * sizeof(value), &value, sizeof(value));
  }
  return made;
}

// What `compute` returns on one thread, and then on four: the same bits.
template <class Compute>
void check_same_on_four_threads(const std::string& name, Compute compute) {
  CAPTURE(name);
  set_num_threads(1);
  const auto alone = compute();
  set_num_threads(4);
  CHECK((compute() == alone));
}

TEST_CASE("orders and features are the same on any number of threads, where loops are split among them") {
  const csr_matrix A = matrix_for_several_threads();
  const threads_for_scope scope(4);
  for (const permutation_algorithm& algorithm : permutation_algorithms()) {
    check_same_on_four_threads(algorithm.name, [&] { return algorithm.compute(A.view(), geometry{4, 4, 4}); });
  }
  for (const feature_set& features : feature_sets()) {
    check_same_on_four_threads(features.name, [&] {
      std::vector<double> values(features.names.size());
      features.compute(A.view(), geometry{}, values.data());
      std::vector<std::uint64_t> bits(values.size());  // not a number is equal to itself
      std::memcpy(bits.data(), values.data(), values.size() * sizeof(double));
      return bits;
    });
  }
}

TEST_CASE("formats are the same on any number of threads, where loops are split among them") {
  const csr_matrix A = matrix_for_several_threads();
  const threads_for_scope scope(4);
  for (const format_description& format : formats()) {
    if (format.name == std::string("dense")) continue;  // 87 GB
    check_same_on_four_threads(format.name, [&] {
      const auto stored = store(format, A.view(), {});
      csr_matrix back = stored->to_csr();
      return std::tuple{stored->places(), std::move(back.indptr), std::move(back.indices), std::move(back.data)};
    });
  }
}

TEST_CASE("products are the same on any number of threads, where loops are split among them") {
  const csr_matrix A = matrix_for_several_threads();
  const threads_for_scope scope(4);
  for (const operation op : {operation::spmv, operation::spmm}) {
    for (const product_kernel& kernel : kernels(op)) {
      if (!kernel.runs_on_cpu() || !kernel.works_on(value_type::float32)) continue;
      problem given(A.view());
      given.op = op;
      given.k = op == operation::spmv ? 1 : 3;
      given.order = op == operation::spmv ? layout::column_major : kernel.layouts.front();
      const candidate chosen = make_candidate(kernel);
      if (!reason_against(kernel, given.matrix(), {given.k, given.order, chosen.parameters, {}, {}, {}}).empty())
        continue;
      std::vector<float> x(A.num_cols * given.k);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 89) / 11;
      const bool by_row = given.order == layout::row_major;
      check_same_on_four_threads(kernel.label(), [&] {
        const auto prepared = prepare_candidate(given, chosen);
        std::vector<float> y(A.num_rows * given.k);
        prepared->multiply_on_host({x.data(), A.num_cols, given.k, by_row ? given.k : A.num_cols},
                                   {y.data(), A.num_rows, given.k, by_row ? given.k : A.num_rows});
        return y;
      });
    }
  }
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
