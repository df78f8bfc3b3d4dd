#include "planner/predicting.hpp"

#include <algorithm>
#include <cmath>

#include "planner/linear_model.hpp"
#include "planner/model_inputs.hpp"
#include "planner/problems.hpp"

namespace warploom {
namespace {

using test::error_of;
using test::known_times;
using test::linear_output;
using test::small_matrix;

const std::string scalar = "spmv/none/csr/scalar";
const std::string merge = "spmv/none/csr/merge";
const std::string vector = "spmv/none/csr/vector";

// Candidates predicted to take 1, 1.1, 1.2, ... of the least time, of which the first few are the short list.
struct made_up {
  std::vector<std::string> names{scalar, merge, vector};
  float loss = 0.1f;  // unsure above 0.2
  int shortlisted = 1;
  std::string note{};
  bool foreign = false;
  std::string sizes = "{}";  // of what it was trained on
  float log_times = 0;       // logarithm of the least time over that of the roofline
  std::string setting{};     // that of float32 if it is not given
  std::string input = "log_rows";
  float coefficient = 0;  // of the input, for the last candidate

  std::shared_ptr<const prediction_source> build() const {
    std::vector<linear_output> scores{{"reference", log_times}, {"loss", loss}};
    std::vector<linear_output> preparation;
    double margin = 0;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const double score = compress(std::log(1 + 0.1 * static_cast<double>(i)));
      scores.push_back({names[i], static_cast<float>(score)});
      preparation.push_back({names[i], 0.1f});
      if (static_cast<int>(i) < shortlisted) margin = score;
    }
    const auto made = std::make_shared<profile>();
    const bool spmv = parse_candidate(names[0]).kernel->op == operation::spmv;
    const std::string model = !setting.empty() ? setting : spmv ? "spmv-float32" : "spmm-float32-row";
    scores.back().input = input;
    scores.back().coefficient = coefficient;
    made->models[model + "-warm"] = test::linear({input}, scores);
    made->models["preparation-" + model] = test::linear({"one"}, preparation);
    made->metrics = parse_json(R"({"selectors": {")" + model + R"(-warm": {"margin": )" +
                               std::to_string(margin + 1e-6) + R"(, "unsure_loss": 0.2, "sizes": )" + sizes + "}}}");
    return std::make_shared<const prediction_source>(prediction_source{selector(made), "some GPU", note, !foreign});
  }
};

const candidate_row& row_of(const explanation& table, const std::string& name) {
  const auto found =
      std::find_if(table.rows.begin(), table.rows.end(), [&](const candidate_row& row) { return row.name == name; });
  REQUIRE(found != table.rows.end());
  return *found;
}

TEST_CASE("a sure prediction is taken without measuring, and explained") {
  const small_matrix A;
  known_times clock{};
  const auto made = plan_by_prediction(A.spmv(), made_up{}.build(), {}, {std::ref(clock)});
  CHECK(made->chosen().name() == scalar);
  CHECK(clock.timed.empty());
  const explanation& why = made->why();
  CHECK(why.based_on == explanation::basis::predicted);
  CHECK(why.gpu == "some GPU");
  CHECK(!why.unsure);
  CHECK(why.baseline == vector);
  REQUIRE(why.rows.size() == 3);
  CHECK(why.rows[0].note == "chosen");
  CHECK(why.rows[1].predicted_us == doctest::Approx(1.1 * why.rows[0].predicted_us).epsilon(1e-3));
  CHECK(why.rows[0].speedup == doctest::Approx(1.2).epsilon(1e-3));
  CHECK(&why == &made->why());
}

// Preparation does not count, so that measuring is always worth it.
plan_options at_any_price() {
  plan_options options;
  options.calls = many_calls;
  return options;
}

TEST_CASE("an unsure one measures the short list, and keeps the fastest of it") {
  const small_matrix A;
  known_times clock{{{merge, 5}, {scalar, 6}, {vector, 1}}};
  made_up unsure;
  unsure.loss = 0.5f;
  unsure.shortlisted = 2;
  const auto made = plan_by_prediction(A.spmv(), unsure.build(), at_any_price(), {std::ref(clock)});
  CHECK(made->chosen().name() == merge);  // vector is not on the list, and so not measured
  CHECK(row_of(made->why(), merge).median_us == 5);
  CHECK(row_of(made->why(), merge).predicted_us > 0);
  CHECK(std::isnan(row_of(made->why(), vector).median_us));
  CHECK(made->why().unsure);
}

TEST_CASE("where measuring lacks memory the prediction is taken, and if that has none it is an error") {
  const small_matrix A;
  made_up unsure;
  unsure.loss = 0.5f;
  unsure.shortlisted = 2;
  const auto no_memory = [](plan&) -> timing { throw error(error_kind::out_of_memory, "", -1, "5 bytes are free"); };
  const auto made = plan_by_prediction(A.spmv(), unsure.build(), at_any_price(), {no_memory});
  CHECK(made->chosen().name() == scalar);
  CHECK(made->why().lacked_memory == 0);  // that was taken: what was measured lacked it
  CHECK(row_of(made->why(), merge).note == "5 bytes are free");

  const auto without = plan_without_measuring(A.spmv(), unsure.build(), {}, "9 bytes are needed");
  CHECK(without->chosen().name() == scalar);
  CHECK(without->why().not_measured == "9 bytes are needed");
  CHECK(row_of(without->why(), merge).predicted_us > 0);

  // Of a list nothing else is taken, although the models do not know it.
  plan_options list;
  list.patterns = std::vector<std::string>{"spmv/none/sell/vector"};
  CHECK(plan_without_measuring(A.spmv(), unsure.build(), list, "no memory")->chosen().name() == list.patterns->front());
}

TEST_CASE("candidates that round to TF32 are measured beside what is predicted, where they are asked for") {
  const small_matrix A;
  const std::string plain = "spmm/none/csr/row_split", tf32 = "spmm/none/column-vectors/tensor_core_tf32";
  made_up sure;
  sure.names = {plain};
  known_times clock{{{tf32, 5}, {plain, 9}}};
  plan_options options = at_any_price();
  options.patterns = std::vector<std::string>{plain, tf32};  // a CPU tries none that no pattern names
  problem given = A.spmm();
  CHECK(plan_by_prediction(given, sure.build(), {}, {std::ref(clock)})->chosen().name() == plain);
  CHECK(clock.timed.empty());
  given.precision = product_precision::tf32;
  const auto made = plan_by_prediction(given, sure.build(), options, {std::ref(clock)});
  CHECK(made->chosen().name() == tf32);
  CHECK(made->precision() == product_precision::tf32);
  CHECK(row_of(made->why(), tf32).median_us == 5);
  CHECK(row_of(made->why(), plain).median_us == 9);
  CHECK(made->why().not_predicted.empty());

  // Slower than what is predicted.
  known_times other_clock{{{tf32, 10}, {plain, 9}}};
  CHECK(plan_by_prediction(given, sure.build(), options, {std::ref(other_clock)})->chosen().name() == plain);

  // Nothing else matches.
  options.patterns = std::vector<std::string>{tf32};
  CHECK(plan_by_prediction(given, sure.build(), options, {std::ref(clock)})->chosen().name() == tf32);
  options.patterns = std::vector<std::string>{"spmm/*/nothing"};
  CHECK(error_of([&] { plan_by_prediction(given, sure.build(), options, {std::ref(clock)}); }).argument() ==
        "candidates");

  // Products that are not worth it, and those that are worth a quick comparison.
  options.patterns = std::vector<std::string>{plain, tf32};
  options.calls = 1;
  clock.timed.clear();
  const auto unmeasured = plan_by_prediction(given, sure.build(), options, {std::ref(clock)});
  CHECK(unmeasured->chosen().name() == plain);
  CHECK(clock.timed.empty());
  CHECK(!unmeasured->why().not_predicted.empty());
  sure.log_times = 20;
  options.calls = 1000;
  CHECK(plan_by_prediction(given, sure.build(), options, {std::ref(clock)})->chosen().name() == tf32);
  CHECK(clock.timed == std::vector<std::string>{plain, tf32});
}

TEST_CASE("tensor cores in half precision are measured where the model of float32 stands in") {
  const small_matrix A;
  const std::vector<float16> ones(A.csr.indices.size(), float16(1.0f));
  csr_view view = A.csr.view();
  view.dtype = value_type::float16;
  view.data = ones.data();
  problem given(view);
  given.k = 4;
  const std::string plain = "spmm/none/csr/row_split", cores = "spmm/none/column-vectors/tensor_core";
  made_up sure;
  sure.names = {plain};
  plan_options options = at_any_price();
  options.patterns = std::vector<std::string>{plain, cores};  // a CPU tries none that no pattern names
  for (const double time_of_cores : {5.0, 10.0}) {
    known_times clock{{{cores, time_of_cores}, {plain, 9}}};
    const auto made = plan_by_prediction(given, sure.build(), options, {std::ref(clock)});
    CHECK(made->chosen().name() == (time_of_cores < 9 ? cores : plain));
    CHECK(row_of(made->why(), cores).median_us == time_of_cores);
  }
  known_times clock{{{cores, 5}, {plain, 9}}};
  options.calls = 1;
  const auto unmeasured = plan_by_prediction(given, sure.build(), options, {std::ref(clock)});
  CHECK(unmeasured->chosen().name() == plain);
  CHECK(clock.timed.empty());
  CHECK(unmeasured->why().not_predicted ==
        "no model knows column-vectors/tensor_core, and it was not measured for so few calls: select='measure' does");
  sure.log_times = 20;
  options.calls = 1000;
  CHECK(plan_by_prediction(given, sure.build(), options, {std::ref(clock)})->chosen().name() == cores);
  CHECK(clock.timed == std::vector<std::string>{plain, cores});
}

TEST_CASE("a model of half precision reads the features of column vectors, and nothing else is measured") {
  const small_matrix A;
  const std::vector<float16> ones(A.csr.indices.size(), float16(1.0f));
  csr_view view = A.csr.view();
  view.data = ones.data();
  const std::string plain = "spmm/none/csr/row_split", cores = "spmm/none/column-vectors/tensor_core";
  made_up of_float16;
  of_float16.setting = "spmm-float16-row";
  of_float16.names = {plain, cores};
  of_float16.input = "vectors_per_nonzero_8";
  for (const float coefficient : {0.0f, -1.0f}) {  // of the tensor cores' score
    of_float16.coefficient = coefficient;
    for (const value_type dtype : {value_type::float16, value_type::bfloat16}) {
      view.dtype = dtype;
      problem given(view);
      given.k = 4;
      known_times clock{};
      const auto made = plan_by_prediction(given, of_float16.build(), {}, {std::ref(clock)});
      CHECK(made->chosen().name() == (coefficient < 0 ? cores : plain));
      CHECK(clock.timed.empty());
      CHECK(made->why().not_predicted.empty());
      CHECK(made->why().stands_in.empty() == (dtype == value_type::float16));
    }
  }
}

TEST_CASE("few calls are not worth measuring") {
  const small_matrix A;
  made_up unsure;
  unsure.loss = 0.5f;
  unsure.shortlisted = 2;
  for (const auto& [calls, chosen] : {std::pair{1.0, scalar}, {1e6, merge}}) {
    known_times clock{{{merge, 5}}};
    plan_options options;
    options.calls = calls;
    const auto made = plan_by_prediction(A.spmv(), unsure.build(), options, {std::ref(clock)});
    CHECK(made->chosen().name() == chosen);
  }
}

// A million nonzeros, 8 in each row.
csr_matrix large_matrix() {
  std::vector<std::vector<std::int32_t>> rows(125'000);
  for (std::int32_t row = 0; row < 125'000; ++row) {
    for (std::int32_t j = 0; j < 8; ++j) rows[row].push_back(std::min(row, 124'992) + j);
  }
  return test::make_csr(125'000, rows);
}

const std::string sell = "spmv/none/compressed-sell/vector";
const std::string panels = "spmv/none/column-panels/shared_x";
const std::string dasp = "spmv/none/dasp/cuda_core";

TEST_CASE("where no such sizes were seen, what wins on large matrices is compared if products take longer") {
  const csr_matrix A = large_matrix();
  const problem given = test::spmv_of(A);
  made_up far;
  far.shortlisted = 2;
  far.sizes = R"({"rows": [1000, 2000]})";
  const auto compared = [&](float log_times, double calls) {
    // Far apart: how long the CPU converts counts, too.
    known_times clock{{{panels, 5e4}, {sell, 1e4}, {dasp, 6e4}, {scalar, 7e4}}};
    plan_options options;
    options.calls = calls;
    far.log_times = log_times;
    const auto made = plan_by_prediction(given, far.build(), options, {std::ref(clock)});
    CHECK(made->chosen().name() == (clock.timed.empty() ? scalar : sell));
    return clock.timed;
  };
  // The vendor's, which come second and last, do not run on a CPU. Nothing of the short list is measured.
  std::vector<std::string> all = compared(10, 1000);
  REQUIRE(all.size() == 4);
  CHECK(all.front() == scalar);
  std::sort(all.begin(), all.end());
  CHECK(all == std::vector<std::string>{panels, sell, scalar, dasp});
  CHECK(compared(10, 10).empty());
  CHECK(compared(-2, 1000).empty());  // preparing the others takes longer than all products

  // Preparation does not count: the short list is measured, and these with it.
  known_times clock{{{panels, 5}, {sell, 4}, {dasp, 6}, {scalar, 7}, {merge, 8}}};
  CHECK(plan_by_prediction(given, far.build(), at_any_price(), {std::ref(clock)})->chosen().name() == sell);
  CHECK(clock.timed.size() == 5);

  // Sizes that were seen, a matrix that is not large, and patterns.
  known_times none{};
  plan_by_prediction(given, made_up{}.build(), {}, {std::ref(none)});
  const small_matrix small;
  far.log_times = 20;
  plan_by_prediction(small.spmv(), far.build(), {}, {std::ref(none)});
  plan_options options;
  options.patterns = std::vector<std::string>{scalar, merge};
  plan_by_prediction(given, far.build(), options, {std::ref(none)});
  CHECK(none.timed.empty());
}

TEST_CASE("the profile of another GPU is never sure") {
  const small_matrix A;
  known_times clock{{{merge, 5}}};
  made_up other;
  other.shortlisted = 2;
  other.note = "no profile of this GPU";
  other.foreign = true;
  const auto made = plan_by_prediction(A.spmv(), other.build(), at_any_price(), {std::ref(clock)});
  CHECK(made->chosen().name() == merge);
  CHECK(made->why().profile_note == "no profile of this GPU");
}

TEST_CASE("the profile of another GPU on which it was scored is as sure as there") {
  const small_matrix A;
  known_times clock{{}};
  made_up other;
  other.shortlisted = 2;
  other.note = "predictions are for another GPU, and were scored on this one";
  const auto made = plan_by_prediction(A.spmv(), other.build(), at_any_price(), {std::ref(clock)});
  CHECK(clock.timed.empty());
  CHECK(made->why().profile_note == other.note);
}

TEST_CASE("the short list computes each permutation once, and its plan multiplies") {
  const small_matrix A;
  made_up unsure;
  unsure.names = {"spmm/lpt/csr/row_split", "spmm/lpt/segmented-csr/row_split", "spmm/none/csr/row_split"};
  unsure.loss = 0.5f;
  unsure.shortlisted = 3;
  known_times clock{{{unsure.names[1], 5}}};
  const problem given = A.spmm(8);
  const auto made = plan_by_prediction(given, unsure.build(), at_any_price(), {std::ref(clock)});
  CHECK(made->chosen().name() == unsure.names[1]);
  CHECK(clock.timed.size() == 3);
  trial operands(given);
  CHECK(operands.check(made->kernel_plan()) == "");
}

TEST_CASE("what does not match or may not be taken is left out") {
  const small_matrix A;
  plan_options options;
  options.patterns = {{"*/csr/merge"}};
  CHECK(plan_by_prediction(A.spmv(), made_up{}.build(), options)->chosen().name() == merge);
  options.patterns = {{"nothing/*"}};
  const error none = error_of([&] { plan_by_prediction(A.spmv(), made_up{}.build(), options); });
  CHECK(none.argument() == "candidates");
  CHECK(std::string(none.what()).find("nothing/*") != std::string::npos);

  // The vendor's kernels do not run on the CPU; rows are not searched for the nearest in large matrices.
  made_up listed;
  listed.names = {"spmm/none/csr/cusparse", "spmm/cta-aware/csr/row_split", "spmm/none/csr/row_split"};
  surroundings in;
  CHECK(plan_by_prediction(A.spmm(), listed.build(), {}, in)->chosen().permutation == "cta-aware");
  in.permutation_rows = 10;
  CHECK(plan_by_prediction(A.spmm(), listed.build(), {}, in)->chosen().permutation == "none");
}

}  // namespace
}  // namespace warploom
