// What all models share: checks of the sizes of a batch, its distribution over threads, and the transform of the
// scores.
#include <algorithm>
#include <cmath>
#include <limits>

#include "warploom/error.hpp"
#include "warploom/parallel.hpp"
#include "warploom/predictor.hpp"

namespace warploom {
namespace {

std::int64_t product(const std::vector<std::int64_t>& shape) {
  std::int64_t size = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || (extent > 0 && size > std::numeric_limits<std::int64_t>::max() / extent)) {
      throw error(error_kind::shape, "shape", -1, "an array's shape is negative or beyond int64");
    }
    size *= extent;
  }
  return size;
}

void check_size(std::size_t values, const array_view& view) {
  if (static_cast<std::int64_t>(values) != view.size()) {
    throw error(error_kind::shape, "shape", -1, std::to_string(values) + " values do not fill the array's shape");
  }
}

// Rows that one thread takes at a time: several hundred microseconds of work for the models there are.
constexpr std::int64_t rows_per_thread = 128;

}  // namespace

array_view::array_view(std::span<const std::int32_t> values, std::vector<std::int64_t> extents)
    : array_view(array_type::int32, std::move(extents), values.data()) {
  check_size(values.size(), *this);
}

array_view::array_view(std::span<const float> values, std::vector<std::int64_t> extents)
    : array_view(array_type::float32, std::move(extents), values.data()) {
  check_size(values.size(), *this);
}

array_view::array_view(std::span<const double> values, std::vector<std::int64_t> extents)
    : array_view(array_type::float64, std::move(extents), values.data()) {
  check_size(values.size(), *this);
}

std::int64_t array_view::size() const { return product(shape); }

model::model(std::int64_t num_inputs, std::int64_t num_scores, std::int64_t num_members, output_transform transform)
    : num_inputs_(num_inputs), num_scores_(num_scores), num_members_(num_members), transform_(transform) {
  if (transform == output_transform::logistic && num_scores != 1) {
    throw error(error_kind::profile, "output", -1,
                "the logistic output takes one score, the model has " + std::to_string(num_scores));
  }
}

void model::predict(std::span<const double> inputs, std::span<double> outputs, std::span<double> spread) const {
  const auto rows = static_cast<std::int64_t>(inputs.size()) / num_inputs_;
  if (rows * num_inputs_ != static_cast<std::int64_t>(inputs.size())) {
    throw error(error_kind::shape, "inputs", -1,
                "the model takes rows of " + std::to_string(num_inputs_) + " inputs, not " +
                    std::to_string(inputs.size()) + " values");
  }
  const auto results = static_cast<std::size_t>(rows * num_outputs());
  if (outputs.size() != results) throw error(error_kind::shape, "outputs", -1, "one output for each row and name");
  if (!spread.empty() && spread.size() != results) {
    throw error(error_kind::shape, "spread", -1, "one value for each output, or none");
  }
  if (!spread.empty() && !has_spread()) {
    throw error(error_kind::parameter, "spread", -1, "the model has one member only, hence no spread");
  }
  const auto wrong = std::find_if_not(inputs.begin(), inputs.end(), [](double x) { return std::isfinite(x); });
  if (wrong != inputs.end()) {
    throw error(error_kind::parameter, "inputs", wrong - inputs.begin(), "the inputs of a model have to be finite");
  }
  const std::int64_t stride = num_outputs();
  parallel_for(0, rows, rows_per_thread, [&](std::int64_t begin, std::int64_t end) {
    double* row = outputs.data() + begin * stride;
    double* spread_row = spread.empty() ? nullptr : spread.data() + begin * stride;
    evaluate(inputs.data() + begin * num_inputs_, end - begin, row, spread_row, stride);
    for (std::int64_t r = begin; r < end; ++r, row += stride) transform(row);
    if (spread_row && transform_ == output_transform::logistic) {  // both classes have the spread of the one score
      for (std::int64_t r = begin; r < end; ++r, spread_row += stride) spread_row[1] = spread_row[0];
    }
  });
}

void model::transform(double* row) const {
  switch (transform_) {
    case output_transform::identity:
      return;
    case output_transform::exp:
      std::transform(row, row + num_scores_, row, [](double score) { return std::exp(score); });
      return;
    case output_transform::softmax: {
      const double largest = *std::max_element(row, row + num_scores_);
      double sum = 0;
      for (std::int64_t i = 0; i < num_scores_; ++i) sum += row[i] = std::exp(row[i] - largest);
      for (std::int64_t i = 0; i < num_scores_; ++i) row[i] /= sum;
      return;
    }
    case output_transform::logistic:
      row[1] = 1 / (1 + std::exp(-row[0]));
      row[0] = 1 - row[1];
      return;
  }
}

}  // namespace warploom
