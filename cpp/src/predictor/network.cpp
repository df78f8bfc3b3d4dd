// A network of dense layers, or several of the same shape whose scores are averaged.
//
// A layer's sums are formed in blocks that stay in registers, and its weights are kept in the order in which a block
// needs them: the inputs' weights for the block's outputs, input after input. The sums of a block are independent of
// each other, which vectorises without changing the order in which any of them is formed, and that order is the
// inputs' order: the widest registers of a processor give the same result as any. Sums and activations are double, so
// that the result is closer to the exact one than that of a trainer in float32; only the first layer's inputs are
// rounded to float32, as the trainer's were. Weights stay float32, as they were trained: reading them is most of what a
// plan waits for here, as caches hold nothing of them then.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/cpu/instruction_sets.hpp"
#include "predictor/kinds.hpp"
#include "predictor/source_reader.hpp"

namespace warploom {
namespace {

enum class activation { relu, tanh, identity };

// Two numbers in a register of any x86-64 or AArch64 processor, and eight in one of AVX-512.
using two = double __attribute__((vector_size(16)));
using two_floats = float __attribute__((vector_size(8)));
using eight = double __attribute__((vector_size(64)));
using eight_floats = float __attribute__((vector_size(32)));

struct layer {
  static constexpr std::int64_t block = 16;

  layer(std::int64_t members, std::int64_t inputs, std::int64_t outputs)
      : num_inputs(inputs),
        num_outputs(outputs),
        padded_outputs((outputs + block - 1) / block * block),
        weights(members * inputs * padded_outputs, 0.0f),
        biases(members * padded_outputs, 0.0) {}

  float& weight(std::int64_t member, std::int64_t output, std::int64_t input) {
    const std::int64_t first = output / block * block;
    return weights[(member * padded_outputs + first) * num_inputs + input * block + output % block];
  }

  // Writes padded_outputs sums; those beyond num_outputs mean nothing.
  void evaluate(std::int64_t member, const double* x, double* z) const {
    if (!only_inputs.empty()) return evaluate_only_inputs(member, x, z);
#if WARPLOOM_HAS_X86_SETS
    if (best_instruction_set() == instruction_set::avx512) return evaluate_by_eights(member, x, z);
#endif
    evaluate_by<two, two_floats>(member, x, z);
  }

  WARPLOOM_FOR_AVX512 void evaluate_by_eights(std::int64_t member, const double* x, double* z) const {
    evaluate_by<eight, eight_floats>(member, x, z);
  }

  template <class Wide, class Narrow>
  [[gnu::always_inline]] void evaluate_by(std::int64_t member, const double* x, double* z) const {
    constexpr std::int64_t lanes = sizeof(Wide) / sizeof(double);
    const float* w = weights.data() + member * padded_outputs * num_inputs;
    const double* bias = biases.data() + member * padded_outputs;
    for (std::int64_t first = 0; first < padded_outputs; first += block) {
      std::array<Wide, block / lanes> sums;
      std::memcpy(sums.data(), bias + first, sizeof sums);
      for (std::int64_t i = 0; i < num_inputs; ++i, w += block) {
        const Wide input = x[i] - Wide{};  // in every lane
#pragma GCC unroll 8
        for (std::int64_t o = 0; o < block / lanes; ++o) {
          Narrow weight;
          std::memcpy(&weight, w + lanes * o, sizeof weight);
          sums[o] += input * __builtin_convertvector(weight, Wide);
        }
      }
      std::memcpy(z + first, sums.data(), sizeof sums);
    }
  }

  void evaluate_only_inputs(std::int64_t member, const double* x, double* z) const {
    const std::int64_t first = member * padded_outputs;
    for (std::int64_t o = first; o < first + num_outputs; ++o)
      z[o - first] = biases[o] + weights[o] * x[only_inputs[o]];
  }

  std::int64_t num_inputs;
  std::int64_t num_outputs;
  std::int64_t padded_outputs;
  // Not empty where no output reads more than one input, as in piecewise linear encodings: that input,
  // [member][padded output]. There is one weight then for each output.
  std::vector<std::int32_t> only_inputs;
  std::vector<float> weights;  // [member][block of outputs][input][output of the block]
  std::vector<double> biases;  // [member][padded output]
};

void activate(activation function, double* z, std::int64_t size) {
  if (function == activation::relu) {
    for (std::int64_t o = 0; o < size; ++o) z[o] = z[o] > 0 ? z[o] : 0;
  } else if (function == activation::tanh) {
    for (std::int64_t o = 0; o < size; ++o) z[o] = std::tanh(z[o]);
  }
}

struct input_transform {
  std::vector<double> log_unit;  // empty, or 0 for an input whose logarithm is not taken
  std::vector<double> mean;
  std::vector<double> scale;

  void apply(const double* x, double* z) const {
    for (std::size_t i = 0; i < mean.size(); ++i) {
      double t = x[i];
      if (!log_unit.empty() && log_unit[i] > 0) t = std::copysign(std::log1p(std::abs(t) / log_unit[i]), t);
      z[i] = static_cast<float>((t - mean[i]) / scale[i]);
    }
  }
};

struct network_parts {
  std::int64_t num_members;
  activation function;
  output_transform output;
  input_transform input;
  std::vector<layer> layers;
  std::vector<double> output_mean;
  std::vector<double> output_scale;
};

class network final : public model {
 public:
  network(std::int64_t num_inputs, network_parts parts)
      : model(num_inputs, parts.layers.back().num_outputs, parts.num_members, parts.output), parts_(std::move(parts)) {
    widest_ = num_inputs;
    for (const layer& one : parts_.layers) widest_ = std::max(widest_, one.padded_outputs);
  }

 private:
  void evaluate(const double* inputs, std::int64_t rows, double* scores, double* spread,
                std::int64_t stride) const override {
    const std::int64_t num_scores = parts_.layers.back().num_outputs;
    std::vector<double> scratch(3 * widest_ + parts_.num_members * num_scores);
    double* const transformed = scratch.data();
    double* const members = transformed + 3 * widest_;
    for (std::int64_t r = 0; r < rows; ++r) {
      parts_.input.apply(inputs + r * num_inputs(), transformed);
      for (std::int64_t m = 0; m < parts_.num_members; ++m) {
        evaluate_member(m, transformed, transformed + widest_, transformed + 2 * widest_, members + m * num_scores);
      }
      summarise(members, num_scores, scores + r * stride, spread ? spread + r * stride : nullptr);
    }
  }

  void evaluate_member(std::int64_t member, const double* inputs, double* x, double* z, double* scores) const {
    for (const layer& one : parts_.layers) {
      one.evaluate(member, inputs, z);
      if (&one == &parts_.layers.back()) break;
      activate(parts_.function, z, one.num_outputs);
      std::swap(x, z);
      inputs = x;
    }
    std::copy_n(z, parts_.layers.back().num_outputs, scores);
    for (std::size_t o = 0; o < parts_.output_mean.size(); ++o) {
      scores[o] = parts_.output_mean[o] + parts_.output_scale[o] * scores[o];
    }
  }

  void summarise(const double* members, std::int64_t num_scores, double* scores, double* spread) const {
    for (std::int64_t o = 0; o < num_scores; ++o) {
      double sum = 0;
      for (std::int64_t m = 0; m < parts_.num_members; ++m) sum += members[m * num_scores + o];
      scores[o] = sum / static_cast<double>(parts_.num_members);
      if (!spread) continue;
      double squares = 0;
      for (std::int64_t m = 0; m < parts_.num_members; ++m) {
        const double difference = members[m * num_scores + o] - scores[o];
        squares += difference * difference;
      }
      spread[o] = std::sqrt(squares / static_cast<double>(parts_.num_members));
    }
  }

  network_parts parts_;
  std::int64_t widest_;
};

// The same layer, of which no output reads more than one input.
layer with_only_inputs(layer& dense) {
  const std::int64_t num_members = static_cast<std::int64_t>(dense.biases.size()) / dense.padded_outputs;
  layer result(num_members, 0, dense.num_outputs);
  result.num_inputs = dense.num_inputs;
  result.biases = dense.biases;
  result.weights.assign(dense.biases.size(), 0.0f);
  result.only_inputs.assign(dense.biases.size(), 0);
  for (std::int64_t m = 0; m < num_members; ++m) {
    for (std::int64_t o = 0; o < dense.num_outputs; ++o) {
      for (std::int64_t i = 0; i < dense.num_inputs; ++i) {
        if (dense.weight(m, o, i) == 0) continue;
        result.weights[m * dense.padded_outputs + o] = dense.weight(m, o, i);
        result.only_inputs[m * dense.padded_outputs + o] = static_cast<std::int32_t>(i);
      }
    }
  }
  return result;
}

layer read_layer(source_reader& source, const std::string& name, std::int64_t num_members, std::int64_t num_inputs) {
  const std::int64_t num_outputs = source.shape(name + ".weight", 3)[1];
  const std::vector<float> weights = source.floats(name + ".weight", {num_members, num_outputs, num_inputs});
  const std::vector<float> biases = source.floats(name + ".bias", {num_members, num_outputs});
  layer read(num_members, num_inputs, num_outputs);
  const float* w = weights.data();
  const float* b = biases.data();
  bool one_input_each = num_inputs > 1;
  for (std::int64_t m = 0; m < num_members; ++m) {
    for (std::int64_t o = 0; o < num_outputs; ++o) {
      read.biases[m * read.padded_outputs + o] = *b++;
      one_input_each = one_input_each && num_inputs - std::count(w, w + num_inputs, 0.0f) <= 1;
      for (std::int64_t i = 0; i < num_inputs; ++i) read.weight(m, o, i) = *w++;
    }
  }
  return one_input_each ? with_only_inputs(read) : read;
}

input_transform read_input_transform(source_reader& source) {
  const std::vector<std::int64_t> shape{source.num_inputs()};
  input_transform transform{{}, source.doubles("input.mean", shape), source.doubles("input.scale", shape)};
  if (source.has("input.log_unit")) transform.log_unit = source.doubles("input.log_unit", shape);
  for (std::int64_t i = 0; i < source.num_inputs(); ++i) {
    if (!(transform.scale[i] > 0)) refuse("input.scale", i, "a scale is not above 0");
    if (!transform.log_unit.empty() && transform.log_unit[i] < 0) refuse("input.log_unit", i, "a unit is below 0");
  }
  return transform;
}

}  // namespace

std::unique_ptr<model> make_network(const model_source& from) {
  source_reader source(from);
  network_parts parts;
  static constexpr activation functions[] = {activation::relu, activation::tanh, activation::identity};
  parts.function = functions[source.choice("activation", {"relu", "tanh", "identity"})];
  parts.output = source.output();
  parts.input = read_input_transform(source);
  parts.num_members = source.shape("layer.0.weight", 3)[0];
  std::int64_t width = from.num_inputs;
  do {
    const std::string name = "layer." + std::to_string(parts.layers.size());
    parts.layers.push_back(read_layer(source, name, parts.num_members, width));
    width = parts.layers.back().num_outputs;
  } while (source.has("layer." + std::to_string(parts.layers.size()) + ".weight"));
  if (source.has("output.mean") || source.has("output.scale")) {
    parts.output_mean = source.doubles("output.mean", {width});
    parts.output_scale = source.doubles("output.scale", {width});
  }
  source.finish();
  return std::make_unique<network>(from.num_inputs, std::move(parts));
}

}  // namespace warploom
