#include <algorithm>
#include <cmath>
#include <set>

#include "warploom/error.hpp"
#include "warploom/profile.hpp"

namespace warploom {
namespace {

// How far an output may be from the stored one, relative to the largest of its vector.
constexpr double tolerance = 1e-6;

void check_names(const char* argument, const std::vector<std::string>& names) {
  if (names.empty() || std::find(names.begin(), names.end(), "") != names.end()) {
    throw error(error_kind::profile, argument, -1, "there are no names, or one is empty or not a string");
  }
  if (std::set<std::string_view>(names.begin(), names.end()).size() != names.size()) {
    throw error(error_kind::profile, argument, -1, "a name occurs twice");
  }
}

std::string text(const std::vector<std::int64_t>& shape) {
  std::string joined;
  for (const std::int64_t extent : shape) joined += (joined.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + joined + "]";
}

std::span<const double> values_of(const shared_array& array) {
  return {static_cast<const double*>(array.view.data), static_cast<std::size_t>(array.view.size())};
}

[[noreturn]] void refuse_check(std::int64_t position, const std::string& message) {
  throw error(error_kind::profile, "check", position, message);
}

}  // namespace

trained_model::trained_model(std::string kind, std::vector<std::string> inputs, std::vector<std::string> outputs,
                             std::map<std::string, std::string> settings, std::map<std::string, shared_array> arrays,
                             std::optional<stored_vectors> check)
    : kind_(std::move(kind)),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      settings_(std::move(settings)),
      arrays_(std::move(arrays)),
      check_(std::move(check)) {
  check_names("inputs", inputs_);
  check_names("outputs", outputs_);
  model_source source{kind_, static_cast<std::int64_t>(inputs_.size()), settings_, {}};
  for (const auto& [name, array] : arrays_) source.arrays.emplace(name, array.view);
  evaluated_ = make_model(source);
  if (static_cast<std::int64_t>(outputs_.size()) != evaluated_->num_outputs()) {
    throw error(
        error_kind::profile, "outputs", -1,
        std::to_string(outputs_.size()) + " names for " + std::to_string(evaluated_->num_outputs()) + " outputs");
  }
  if (check_) verify(*check_);
}

std::optional<std::size_t> trained_model::find_output(std::string_view name) const {
  const auto found = std::find(outputs_.begin(), outputs_.end(), name);
  if (found == outputs_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - outputs_.begin());
}

void trained_model::verify(const stored_vectors& check) const {
  const array_view& inputs = check.inputs.view;
  const array_view& outputs = check.outputs.view;
  for (const array_view& matrix : {inputs, outputs}) {
    if (matrix.type != array_type::float64 || matrix.shape.size() != 2) {
      refuse_check(-1, "stored vectors are inputs and outputs, two float64 matrices");
    }
  }
  const std::int64_t count = inputs.shape[0];
  const auto width = static_cast<std::int64_t>(outputs_.size());
  if (inputs.shape[1] != static_cast<std::int64_t>(inputs_.size()) || outputs.shape[0] != count ||
      outputs.shape[1] != width || count < 1 || count > max_stored_vectors) {
    refuse_check(-1, "stored vectors of shapes " + text(inputs.shape) + " and " + text(outputs.shape) + " do not fit " +
                         std::to_string(inputs_.size()) + " inputs and " + std::to_string(width) +
                         " outputs, or are not 1 to " + std::to_string(max_stored_vectors));
  }
  const std::span<const double> given = values_of(check.inputs);
  const std::span<const double> expected = values_of(check.outputs);
  const auto is_finite = [](double x) { return std::isfinite(x); };
  if (!std::all_of(given.begin(), given.end(), is_finite) ||
      !std::all_of(expected.begin(), expected.end(), is_finite)) {
    refuse_check(-1, "a stored vector is not finite");
  }
  std::vector<double> computed(expected.size());
  evaluated_->predict(given, computed);
  const bool exact = kind_ == "tree_ensemble" && settings_.at("output") == "identity";
  for (std::int64_t i = 0; i < count; ++i) {
    const double* const row = expected.data() + i * width;
    double largest = 0;
    for (std::int64_t o = 0; o < width; ++o) largest = std::max(largest, std::abs(row[o]));
    const double allowed = exact ? 0.0 : tolerance * largest;
    for (std::int64_t o = 0; o < width; ++o) {
      if (std::abs(computed[i * width + o] - row[o]) <= allowed) continue;
      refuse_check(i, "the model does not compute the outputs stored for vector " + std::to_string(i));
    }
  }
}

}  // namespace warploom
