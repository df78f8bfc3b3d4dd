#include "planner/host_product.hpp"

#include <cstdint>
#include <vector>

#include "planner/problems.hpp"

namespace warploom {
namespace {

using test::small_matrix;

// As if it were planned on a GPU: preparing for the CPU does not ask for one.
problem on_gpu(problem given) {
  given.device = 0;
  return given;
}

TEST_CASE("small products are multiplied as the CPU's plan multiplies them") {
  const small_matrix A;
  for (const problem& given : {A.spmv(), A.spmm(8), A.spmm(8, layout::column_major)}) {
    const auto made = host_product::prepare(on_gpu(given));
    REQUIRE(made != nullptr);
    CHECK(made->is_quicker(given.k));
    std::vector<float> b(given.num_cols() * given.k), c(given.num_rows() * given.k, -1.0f);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 13) - 6;
    const bool by_row = given.order == layout::row_major;
    const dense_view B{b.data(), given.num_cols(), given.k, by_row ? given.k : given.num_cols()};
    const dense_view C{c.data(), given.num_rows(), given.k, by_row ? given.k : given.num_rows()};
    made->on_cpu().run(B, C, nullptr);
    std::vector<double> expected(c.size());
    reference_product(given.matrix(), B, given.order, expected.data(), nullptr);
    for (std::int64_t row = 0; row < given.num_rows(); ++row) {
      for (std::int64_t column = 0; column < given.k; ++column) {
        const float found = by_row ? c[row * given.k + column] : c[column * given.num_rows() + row];
        CHECK(found == doctest::Approx(expected[row * given.k + column]));
      }
    }
  }
}

TEST_CASE("other products stay on the GPU") {
  const small_matrix A;
  CHECK(host_product::prepare(A.spmv()) == nullptr);  // of a plan on the CPU
  problem updatable = on_gpu(A.spmv());
  updatable.updatable = true;
  CHECK(host_product::prepare(updatable) == nullptr);
  CHECK(host_product::prepare(on_gpu(A.spmm(1 << 14))) == nullptr);  // operands that no cache holds
}

TEST_CASE("a matrix with too many nonzeros for its rows stays on the GPU") {
  std::vector<std::vector<std::int32_t>> rows(200);
  for (auto& row : rows) {
    for (std::int32_t j = 0; j < 200; ++j) row.push_back(j);
  }
  const csr_matrix full = test::make_csr(200, rows);
  problem given(full.view());
  given.device = 0;
  for (const std::int64_t k : {1, 8, 128}) {
    given.k = k;
    CHECK(host_product::prepare(given) == nullptr);
  }
}

}  // namespace
}  // namespace warploom
