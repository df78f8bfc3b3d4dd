#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support.hpp"
#include "warploom/predictor.hpp"

namespace warploom {
namespace {

// Two members of 2 inputs, 2 hidden neurons and 1 score, by hand.
struct two_networks {
  std::vector<float> weight_0{1, 2, -1, 1, /* second */ 0.5f, 0, 0, 2};
  std::vector<float> bias_0{0.5f, -1, /* second */ 1, 0};
  std::vector<float> weight_1{1, 3, /* second */ -1, 1};
  std::vector<float> bias_1{0.25f, /* second */ 0};
  std::vector<double> mean{1, 0};
  std::vector<double> scale{2, 1};
  std::vector<double> log_unit{0, 0.5};
  std::vector<double> output_mean{10};
  std::vector<double> output_scale{2};
  std::string activation = "relu";

  std::unique_ptr<model> make() const {
    return make_model({"network",
                       2,
                       {{"activation", activation}, {"output", "identity"}},
                       {{"layer.0.weight", {weight_0, {2, 2, 2}}},
                        {"layer.0.bias", {bias_0, {2, 2}}},
                        {"layer.1.weight", {weight_1, {2, 1, 2}}},
                        {"layer.1.bias", {bias_1, {2, 1}}},
                        {"input.mean", {mean, {2}}},
                        {"input.scale", {scale, {2}}},
                        {"input.log_unit", {log_unit, {2}}},
                        {"output.mean", {output_mean, {1}}},
                        {"output.scale", {output_scale, {1}}}}});
  }

  // The same, written out.
  std::vector<double> scores(double x, double y) const {
    const auto act = [&](double z) {
      return activation == "tanh" ? std::tanh(z) : activation == "relu" ? std::max(z, 0.0) : z;
    };
    const double s = static_cast<float>((x - 1) / 2);
    const double t = static_cast<float>((y < 0 ? -1 : 1) * std::log(1 + std::abs(y) / 0.5));
    const double first = 0.25 + act(0.5 + s + 2 * t) + 3 * act(-1 - s + t);
    const double second = -act(1 + 0.5 * s) + act(2 * t);
    return {10 + 2 * first, 10 + 2 * second};
  }
};

}  // namespace

TEST_CASE("network: the mean of two networks, and their spread") {
  for (const char* activation : {"relu", "tanh", "identity"}) {
    two_networks networks;
    networks.activation = activation;
    const auto model = networks.make();
    REQUIRE(model->has_spread());
    for (const auto& inputs : {std::vector<double>{3, 4}, {-7, -0.1}, {1, 0}, {1e6, 1e9}}) {
      CAPTURE(inputs);
      std::vector<double> output(1);
      std::vector<double> spread(1);
      model->predict(inputs, output, spread);
      const std::vector<double> expected = networks.scores(inputs[0], inputs[1]);
      CHECK(output[0] == doctest::Approx((expected[0] + expected[1]) / 2).epsilon(1e-12));
      CHECK(spread[0] == doctest::Approx(std::abs(expected[0] - expected[1]) / 2).epsilon(1e-12));
    }
  }
}

TEST_CASE("network: a layer whose neurons each read one input at most") {
  two_networks networks;
  // Of the first member: 2 y and x. Of the second: nothing, and -3 y.
  networks.weight_0 = {0, 2, 1, 0, /* second */ 0, 0, 0, -3};
  networks.log_unit = {0, 0};
  const auto model = networks.make();
  for (const auto& inputs : {std::vector<double>{3, 4}, {-7, -0.25}, {1, 0}, {1e6, -1e9}}) {
    CAPTURE(inputs);
    const double s = (inputs[0] - 1) / 2, t = inputs[1];
    const double first = 0.25 + std::max(0.5 + 2 * t, 0.0) + 3 * std::max(-1 + s, 0.0);
    const double second = -1 + std::max(-3 * t, 0.0);
    std::vector<double> output(1);
    std::vector<double> spread(1);
    model->predict(inputs, output, spread);
    CHECK(output[0] == doctest::Approx(10 + first + second).epsilon(1e-6));  // x is rounded to float32
    CHECK(spread[0] == doctest::Approx(std::abs(first - second)).epsilon(1e-6));
  }
}

TEST_CASE("network: names what is wrong") {
  const auto refused = [](const two_networks& networks, const std::string& argument, std::int64_t position) {
    const error e = test::error_of([&] { networks.make(); });
    CHECK(e.kind() == error_kind::profile);
    CHECK(e.argument() == argument);
    CHECK(e.position() == position);
  };
  two_networks networks;
  networks.weight_0[5] = std::numeric_limits<float>::infinity();
  refused(networks, "layer.0.weight", 5);
  networks = {};
  networks.scale[1] = 0;
  refused(networks, "input.scale", 1);
  networks = {};
  networks.log_unit[0] = -1;
  refused(networks, "input.log_unit", 0);
  networks = {};
  networks.activation = "sine";
  refused(networks, "activation", -1);
}

}  // namespace warploom
