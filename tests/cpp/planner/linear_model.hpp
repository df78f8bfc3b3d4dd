// Models whose outputs are known beforehand.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "warploom/profile.hpp"

namespace warploom::test {

// An output of a linear model: a constant, and a coefficient for one input.
struct linear_output {
  std::string name;
  float constant;
  std::string input{};
  float coefficient = 0;
};

inline std::shared_ptr<const trained_model> linear(std::vector<std::string> inputs,
                                                   const std::vector<linear_output>& outputs) {
  const auto keep = [](auto values, std::vector<std::int64_t> shape) {
    const auto owner = std::make_shared<const decltype(values)>(std::move(values));
    return shared_array{{*owner, std::move(shape)}, owner};
  };
  const auto width = static_cast<std::int64_t>(inputs.size());
  const auto height = static_cast<std::int64_t>(outputs.size());
  std::vector<float> weight;
  std::vector<float> bias;
  std::vector<std::string> names;
  for (const linear_output& output : outputs) {
    for (const std::string& input : inputs) weight.push_back(input == output.input ? output.coefficient : 0);
    bias.push_back(output.constant);
    names.push_back(output.name);
  }
  std::map<std::string, shared_array> arrays{
      {"layer.0.weight", keep(std::move(weight), {1, height, width})},
      {"layer.0.bias", keep(std::move(bias), {1, height})},
      {"input.mean", keep(std::vector<double>(width, 0.0), {width})},
      {"input.scale", keep(std::vector<double>(width, 1.0), {width})},
  };
  return std::make_shared<const trained_model>(
      "network", std::move(inputs), std::move(names),
      std::map<std::string, std::string>{{"activation", "identity"}, {"output", "identity"}}, std::move(arrays),
      std::nullopt);
}

}  // namespace warploom::test
