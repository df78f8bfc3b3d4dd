// Trained models, evaluated without the libraries that trained them.
//
// A model is a kind ("network", "tree_ensemble"), settings, and arrays, as a profile file holds them. The registry
// (cpp/src/predictor/registry.cpp) makes the model; everything it reads is checked first, so that a damaged profile
// is refused with error_kind::profile and nothing is ever read out of range.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace warploom {

enum class array_type { int32, float32, float64 };

// A view of an array in C order. The span constructors refuse a shape of another size.
struct array_view {
  array_view(array_type type, std::vector<std::int64_t> shape, const void* data)
      : type(type), shape(std::move(shape)), data(data) {}
  array_view(std::span<const std::int32_t> values, std::vector<std::int64_t> shape);
  array_view(std::span<const float> values, std::vector<std::int64_t> shape);
  array_view(std::span<const double> values, std::vector<std::int64_t> shape);

  std::int64_t size() const;  // elements

  array_type type;
  std::vector<std::int64_t> shape;
  const void* data;
};

// What a model is made from; the arrays are copied and need not outlive it.
struct model_source {
  std::string kind;
  std::int64_t num_inputs = 0;
  std::map<std::string, std::string> settings;
  std::map<std::string, array_view> arrays;
};

// The transform from the raw scores of a model to its outputs.
enum class output_transform {
  identity,
  exp,       // of a model that predicts the logarithm of a time
  softmax,   // scores to probabilities
  logistic,  // one score to the probabilities of two classes, 1 - p and p
};

class model {
 public:
  virtual ~model() = default;

  std::int64_t num_inputs() const { return num_inputs_; }
  std::int64_t num_outputs() const { return transform_ == output_transform::logistic ? 2 : num_scores_; }

  // Whether the model has several members (trees of a forest, networks) whose disagreement is its spread.
  bool has_spread() const { return num_members_ > 1; }

  // One prediction for each row. `inputs` is rows x num_inputs in C order and has to be finite, `outputs` and
  // `spread` are rows x num_outputs. The outputs are those of the members' mean score; the spread, which is not
  // computed into an empty span, is the standard deviation of the scores across members, before the transform.
  // Every row's result is the same whatever else is in the batch and however many threads there are.
  void predict(std::span<const double> inputs, std::span<double> outputs, std::span<double> spread = {}) const;

 protected:
  model(std::int64_t num_inputs, std::int64_t num_scores, std::int64_t num_members, output_transform transform);

  // Scores of `rows` rows; row r goes to scores + r * stride, and to spread + r * stride unless `spread` is null.
  virtual void evaluate(const double* inputs, std::int64_t rows, double* scores, double* spread,
                        std::int64_t stride) const = 0;

 private:
  void transform(double* row) const;

  std::int64_t num_inputs_;
  std::int64_t num_scores_;
  std::int64_t num_members_;
  output_transform transform_;
};

struct model_kind {
  const char* name;
  std::unique_ptr<model> (*make)(const model_source&);
};

// The registry (cpp/src/predictor/registry.cpp).
std::span<const model_kind> model_kinds();

// Throws error_kind::profile for an unknown kind and for whatever is wrong with its settings and arrays; the error's
// argument is the setting's or the array's name.
std::unique_ptr<model> make_model(const model_source& source);

}  // namespace warploom
