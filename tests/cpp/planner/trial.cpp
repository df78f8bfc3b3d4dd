#include "planner/trial.hpp"

#include <cmath>
#include <limits>
#include <new>

#include "allocation_failure.hpp"
#include "planner/problems.hpp"

namespace warploom {
namespace {

using test::small_matrix;

// A plan whose result is changed after the right one was computed.
class wrong_plan final : public product_plan {
 public:
  wrong_plan(product_plan& right, void (*change)(float* C, std::int64_t size)) : right_(right), change_(change) {}
  void run(const dense_view& B, const dense_view& C, CUstream_st* stream) override {
    right_.run(B, C, stream);
    change_(static_cast<float*>(C.data), C.num_rows * C.num_cols);
  }
  std::size_t bytes() const override { return 0; }

 private:
  product_plan& right_;
  void (*change_)(float* C, std::int64_t size);
};

TEST_CASE("right results pass and wrong ones are found") {
  const small_matrix A;
  for (const layout order : {layout::row_major, layout::column_major}) {
    for (const std::int64_t k : {1, 5, 70}) {
      const problem given = A.spmm(k, order);
      trial operands(given);
      for (const char* name : {"spmm/none/csr/row_split", "spmm/lpt/segmented-csr/row_split[segment_length=16]"}) {
        const auto prepared = prepare_candidate(given, parse_candidate(name));
        CHECK(operands.check(prepared->kernel_plan()) == "");
      }
      const auto right = prepare_candidate(given, parse_candidate("spmm/none/csr/row_split"));
      wrong_plan last(right->kernel_plan(),
                      [](float* C, std::int64_t size) { C[size - 1] += 1e-3f + 1e-3f * std::abs(C[size - 1]); });
      wrong_plan unwritten(right->kernel_plan(),
                           [](float* C, std::int64_t) { C[0] = std::numeric_limits<float>::quiet_NaN(); });
      wrong_plan zero(right->kernel_plan(), [](float* C, std::int64_t size) { std::fill(C, C + size, 0.0f); });
      for (product_plan* wrong : {&last, &unwritten, &zero}) {
        CHECK(operands.check(*wrong).find("wrong result in") == 0);
      }
    }
  }
}

TEST_CASE("matrices without rows, columns or nonzeros can be tried") {
  for (const auto& [rows, cols] : {std::pair{0, 4}, {4, 0}, {3, 3}}) {
    const csr_matrix empty = empty_csr(rows, cols, value_type::float64);
    problem given(empty.view());
    given.k = 5;
    trial operands(given);
    const auto prepared = prepare_candidate(given, parse_candidate("spmm/none/csr/row_split"));
    CHECK(operands.check(prepared->kernel_plan()) == "");
    CHECK(operands.time(prepared->kernel_plan(), cache_state::warm, 3, 1, 1).repeats == 3);
  }
}

TEST_CASE("percentiles are those of NumPy, and the budget bounds repeats") {
  std::vector<double> times;
  for (int i = 101; i >= 1; --i) times.push_back(i);
  const timing found = summarize(times);
  CHECK(found.p10 == 11);
  CHECK(found.median == 51);
  CHECK(found.p90 == 91);
  CHECK(summarize(std::vector<double>{1, 2}).median == 1.5);

  const small_matrix A;
  const problem given = A.spmv();
  trial operands(given);
  const auto prepared = prepare_candidate(given, parse_candidate("spmv/none/csr/vector"));
  CHECK(operands.time(prepared->kernel_plan(), cache_state::warm, 7, 2, 1e4).repeats == 7);
  CHECK(operands.time(prepared->kernel_plan(), cache_state::cold, 1000, 2, 0).repeats == 3);
  CHECK(operands.time(prepared->kernel_plan(), cache_state::warm, 2, 2, 0).repeats == 2);
}

TEST_CASE("preparation says what each step took") {
  const small_matrix A;
  const problem given = A.spmm();
  const auto prepared = prepare_candidate(given, parse_candidate("spmm/lpt/dcsr/row_split"));
  REQUIRE(prepared->preparation().size() == 2);
  CHECK(prepared->preparation()[0].name == "permutation");
  CHECK(prepared->preparation()[1].name == "conversion");
  CHECK(prepared->preparation_ms() > 0);
  CHECK(prepared->why().chosen == "spmm/lpt/dcsr/row_split");
}

TEST_CASE("a bandwidth that could not be measured for lack of memory is measured the next time") {
  for (int countdown = 0; countdown < 4; ++countdown) {
    try {
      const test::allocation_failure failure(countdown);
      copy_bandwidth(-1);
    } catch (const std::bad_alloc&) {
      continue;
    }
    break;
  }
  CHECK(copy_bandwidth(-1) > 0);
}

}  // namespace
}  // namespace warploom
