// Every kind of model computes what its trainer did, on the vectors that the trainer stored; and what all models
// refuse.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "support.hpp"
#include "warploom/parallel.hpp"
#include "warploom/profile.hpp"

namespace warploom {
namespace {

const profile& toy_profile() {
  static const std::shared_ptr<const profile> loaded = load_profile(WARPLOOM_TEST_DATA "/toy-profile.safetensors");
  return *loaded;
}

std::vector<double> values_of(const shared_array& array) {
  const auto* first = static_cast<const double*>(array.view.data);
  return {first, first + array.view.size()};
}

// One input x, one layer: 2 x + 1.
const std::vector<float> weight{2};
const std::vector<float> bias{1};
const std::vector<double> zero{0};
const std::vector<double> one{1};

model_source line(const std::string& output = "identity") {
  return {"network",
          1,
          {{"activation", "relu"}, {"output", output}},
          {{"layer.0.weight", {weight, {1, 1, 1}}},
           {"layer.0.bias", {bias, {1, 1}}},
           {"input.mean", {zero, {1}}},
           {"input.scale", {one, {1}}}}};
}

}  // namespace

TEST_CASE("models compute what their trainers stored") {
  CHECK(toy_profile().models.size() == 5);
  for (const auto& [name, toy] : toy_profile().models) {
    CAPTURE(name);
    const std::vector<double> expected = values_of(toy->check()->outputs);
    REQUIRE(expected.size() == 8 * static_cast<std::size_t>(toy->evaluated().num_outputs()));
    std::vector<double> outputs(expected.size());
    toy->evaluated().predict(values_of(toy->check()->inputs), outputs);
    const bool exact = toy->kind() == "tree_ensemble" && toy->settings().at("output") == "identity";
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (exact) {
        CHECK(outputs[i] == expected[i]);
      } else {
        CHECK(std::abs(outputs[i] - expected[i]) <= 1e-6 * std::abs(expected[i]));
      }
    }
  }
}

TEST_CASE("a row's prediction does not depend on its batch or the threads") {
  for (const auto& [name, toy] : toy_profile().models) {
    CAPTURE(name);
    const model& evaluated = toy->evaluated();
    const std::vector<double> few = values_of(toy->check()->inputs);
    std::vector<double> many;
    for (int i = 0; i < 100; ++i) many.insert(many.end(), few.begin(), few.end());
    std::vector<double> alone(few.size() / 5 * evaluated.num_outputs());
    std::vector<double> batch(many.size() / 5 * evaluated.num_outputs());
    evaluated.predict(few, alone);
    for (const int threads : {1, 3}) {
      set_num_threads(threads);
      evaluated.predict(many, batch);
      for (std::size_t i = 0; i < batch.size(); ++i) REQUIRE(batch[i] == alone[i % alone.size()]);
    }
    set_num_threads(0);
  }
}

TEST_CASE("output transforms") {
  std::vector<double> outputs(2);
  const std::vector<double> half{0.5};  // the score is 2
  make_model(line("exp"))->predict(half, std::span(outputs).first(1));
  CHECK(outputs[0] == std::exp(2.0));
  make_model(line("softmax"))->predict(half, std::span(outputs).first(1));
  CHECK(outputs[0] == 1);
  const auto logistic = make_model(line("logistic"));
  CHECK(logistic->num_outputs() == 2);
  logistic->predict(half, outputs);
  CHECK(outputs[1] == doctest::Approx(1 / (1 + std::exp(-2.0))).epsilon(1e-15));
  CHECK(outputs[0] + outputs[1] == 1);
}

TEST_CASE("predict refuses sizes that do not fit, and values that are not finite") {
  const auto model = make_model(line());
  std::vector<double> outputs(2);
  const std::vector<double> inputs{1, std::numeric_limits<double>::quiet_NaN()};
  const error not_finite = test::error_of([&] { model->predict(inputs, outputs); });
  CHECK(not_finite.kind() == error_kind::parameter);
  CHECK(not_finite.position() == 1);
  CHECK(test::error_of([&] { model->predict(std::span(inputs).first(1), outputs); }).kind() == error_kind::shape);
  std::vector<double> spread(1);
  const error single = test::error_of([&] { model->predict(one, std::span(outputs).first(1), spread); });
  CHECK(single.kind() == error_kind::parameter);
  CHECK(!model->has_spread());
  model->predict({}, {});  // no rows: nothing to do
}

TEST_CASE("what a model is made from is checked") {
  const auto refused = [](model_source source, const std::string& argument) {
    const error e = test::error_of([&] { make_model(source); });
    CHECK(e.kind() == error_kind::profile);
    CHECK(e.argument() == argument);
  };
  model_source source = line();
  source.kind = "oracle";
  refused(source, "kind");
  source = line();
  source.num_inputs = 0;
  refused(source, "inputs");
  source = line("square");
  refused(source, "output");
  source = line();
  source.settings.erase("activation");
  refused(source, "activation");
  source.settings = {{"activation", "relu"}, {"output", "identity"}, {"bias", "no"}};
  refused(source, "bias");
  source = line();
  source.arrays.emplace("layer.2.bias", array_view(bias, {1, 1}));
  refused(source, "layer.2.bias");
  source.arrays.erase("layer.2.bias");
  source.arrays.erase("input.mean");
  refused(source, "input.mean");
  source.arrays.emplace("input.mean", array_view(weight, {1}));
  refused(source, "input.mean");
}

TEST_CASE("array_view: the values fill the shape") {
  CHECK(test::error_of([] { array_view(weight, {2}); }).kind() == error_kind::shape);
  CHECK(test::error_of([] { array_view(weight, {-1, -1}); }).kind() == error_kind::shape);
  const std::int64_t huge = std::int64_t{1} << 40;
  CHECK(test::error_of([&] { array_view(weight, {huge, huge}); }).kind() == error_kind::shape);
}

}  // namespace warploom
