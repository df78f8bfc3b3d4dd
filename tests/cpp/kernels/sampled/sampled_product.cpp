// Dot products at the nonzeros of a pattern, in every value type and for every number of threads and columns.
#include "kernels/sampled/sampled_product.hpp"

#include <cstdint>
#include <vector>

#include "support.hpp"
#include "warploom/parallel.hpp"

namespace warploom {
namespace {

template <class Value>
std::vector<Value> numbers(std::int64_t rows, std::int64_t leading, int step) {
  std::vector<Value> values;
  for (std::int64_t i = 0; i < rows * leading; ++i) values.emplace_back(static_cast<float>((i * step) % 5 - 2));
  return values;
}

template <class Value>
void check(value_type dtype, std::int64_t k, int threads) {
  const csr_matrix A = test::make_csr(3, {{}, {0, 2, 2}, {}, {1}, {2, 0}, {}}, dtype);
  const std::int64_t X_leading = k + 2;
  const std::int64_t Y_leading = k + 1;
  std::vector<Value> X = numbers<Value>(6, X_leading, 3);
  std::vector<Value> Y = numbers<Value>(3, Y_leading, 7);
  std::vector<Value> out(static_cast<std::size_t>(A.nnz()));
  set_num_threads(threads);
  sampled_product(A.view(), {X.data(), 6, k, X_leading}, {Y.data(), 3, k, Y_leading}, dtype, out.data());
  set_num_threads(0);
  for (std::int64_t row = 0; row < 6; ++row) {
    for (std::int64_t j = A.indptr[row]; j < A.indptr[row + 1]; ++j) {
      float expected = 0;  // of small integers: exact in every type
      for (std::int64_t c = 0; c < k; ++c) {
        expected += static_cast<float>(X[row * X_leading + c]) * static_cast<float>(Y[A.indices[j] * Y_leading + c]);
      }
      CHECK(static_cast<float>(out[j]) == expected);
    }
  }
}

}  // namespace

TEST_CASE("sampled_product: the dot products of rows") {
  for (const int threads : {1, 3}) {
    for (const std::int64_t k : {0, 1, 3, 4, 5, 8, 31}) {
      check<double>(value_type::float64, k, threads);
      check<float>(value_type::float32, k, threads);
      check<float16>(value_type::float16, k, threads);
      check<bfloat16>(value_type::bfloat16, k, threads);
    }
  }
}

TEST_CASE("sampled_product: many nonzeros in a row, over several threads") {
  std::vector<std::int32_t> columns(70000, 1);
  const csr_matrix A = test::make_csr(2, {{0}, columns, {}, {1}});
  std::vector<float> X{1, 2, 3, 4};
  std::vector<float> Y{10, 20};
  std::vector<float> out(static_cast<std::size_t>(A.nnz()));
  set_num_threads(4);
  sampled_product(A.view(), {X.data(), 4, 1, 1}, {Y.data(), 2, 1, 1}, value_type::float32, out.data());
  set_num_threads(0);
  CHECK(out.front() == 10);
  CHECK(std::vector<float>(out.begin() + 1, out.end() - 1) == std::vector<float>(70000, 40));
  CHECK(out.back() == 80);
}

}  // namespace warploom
