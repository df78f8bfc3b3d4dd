// Checked access to the settings and arrays of a model. Each of them has to be read: one that no part of the model
// knows is refused, so that a model is never loaded with a meaning other than what is computed.
#pragma once

#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "warploom/error.hpp"
#include "warploom/predictor.hpp"

namespace warploom {

class source_reader {
 public:
  explicit source_reader(const model_source& source);

  std::int64_t num_inputs() const { return source_.num_inputs; }

  // The position of the setting's value among the accepted ones.
  std::size_t choice(const std::string& name, std::initializer_list<std::string_view> accepted);
  output_transform output();

  bool has(const std::string& name) const { return source_.arrays.contains(name); }

  // The array's shape; it has `dimensions` of them, none of which is 0.
  const std::vector<std::int64_t>& shape(const std::string& name, std::size_t dimensions);

  // A copy of the array, whose shape has to be the given one and whose floating-point values have to be finite
  // (`finite`). `values<double>` also takes float32 arrays where `any_float` says so.
  std::vector<std::int32_t> int32s(const std::string& name, const std::vector<std::int64_t>& shape);
  std::vector<float> floats(const std::string& name, const std::vector<std::int64_t>& shape);
  std::vector<double> doubles(const std::string& name, const std::vector<std::int64_t>& shape);
  std::vector<double> thresholds(const std::string& name, const std::vector<std::int64_t>& shape);  // finite or not

  // Refuses what has not been read.
  void finish() const;

 private:
  const array_view& find(const std::string& name);
  const array_view& find(const std::string& name, const std::vector<std::int64_t>& shape);

  const model_source& source_;
  std::set<std::string> settings_read_;
  std::set<std::string> arrays_read_;
};

[[noreturn]] inline void refuse(const std::string& argument, std::int64_t position, const std::string& message) {
  throw error(error_kind::profile, argument, position, argument + ": " + message);
}

}  // namespace warploom
