#include "predictor/source_reader.hpp"

#include <algorithm>
#include <cmath>

namespace warploom {
namespace {

const char* name_of(array_type type) {
  return type == array_type::int32 ? "int32" : type == array_type::float32 ? "float32" : "float64";
}

std::string text(const std::vector<std::int64_t>& shape) {
  std::string joined;
  for (const std::int64_t extent : shape) joined += (joined.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + joined + "]";
}

template <class Value>
std::vector<Value> copy(const array_view& array) {
  const auto* first = static_cast<const Value*>(array.data);
  return {first, first + array.size()};
}

void check_type(const std::string& name, const array_view& array, array_type expected) {
  if (array.type != expected) {
    refuse(name, -1, std::string("the type is ") + name_of(array.type) + ", not " + name_of(expected));
  }
}

template <class Value>
std::vector<Value> finite(const std::string& name, std::vector<Value> values) {
  const auto wrong = std::find_if_not(values.begin(), values.end(), [](Value x) { return std::isfinite(x); });
  if (wrong != values.end()) refuse(name, wrong - values.begin(), "a value is not finite");
  return values;
}

}  // namespace

source_reader::source_reader(const model_source& source) : source_(source) {
  if (source.num_inputs < 1) refuse("inputs", -1, "a model has at least one input");
}

std::size_t source_reader::choice(const std::string& name, std::initializer_list<std::string_view> accepted) {
  settings_read_.insert(name);
  const auto setting = source_.settings.find(name);
  if (setting == source_.settings.end()) refuse(name, -1, "the setting is missing");
  const auto* const found = std::find(accepted.begin(), accepted.end(), setting->second);
  if (found != accepted.end()) return static_cast<std::size_t>(found - accepted.begin());
  std::string known;
  for (const std::string_view value : accepted) known += (known.empty() ? "" : ", ") + std::string(value);
  refuse(name, -1, "unknown value '" + setting->second + "'; the values are: " + known);
}

output_transform source_reader::output() {
  static constexpr output_transform transforms[] = {output_transform::identity, output_transform::exp,
                                                    output_transform::softmax, output_transform::logistic};
  return transforms[choice("output", {"identity", "exp", "softmax", "logistic"})];
}

const array_view& source_reader::find(const std::string& name) {
  arrays_read_.insert(name);
  const auto array = source_.arrays.find(name);
  if (array == source_.arrays.end()) refuse(name, -1, "the array is missing");
  return array->second;
}

const array_view& source_reader::find(const std::string& name, const std::vector<std::int64_t>& expected) {
  const array_view& array = find(name);
  if (array.shape != expected) refuse(name, -1, "the shape is " + text(array.shape) + ", not " + text(expected));
  return array;
}

const std::vector<std::int64_t>& source_reader::shape(const std::string& name, std::size_t dimensions) {
  const std::vector<std::int64_t>& extents = find(name).shape;
  if (extents.size() != dimensions) {
    refuse(name, -1, "the shape is " + text(extents) + ", not one of " + std::to_string(dimensions) + " dimensions");
  }
  if (std::find(extents.begin(), extents.end(), 0) != extents.end()) refuse(name, -1, "the array is empty");
  return extents;
}

std::vector<std::int32_t> source_reader::int32s(const std::string& name, const std::vector<std::int64_t>& expected) {
  const array_view& array = find(name, expected);
  check_type(name, array, array_type::int32);
  return copy<std::int32_t>(array);
}

std::vector<float> source_reader::floats(const std::string& name, const std::vector<std::int64_t>& expected) {
  const array_view& array = find(name, expected);
  check_type(name, array, array_type::float32);
  return finite(name, copy<float>(array));
}

std::vector<double> source_reader::doubles(const std::string& name, const std::vector<std::int64_t>& expected) {
  const array_view& array = find(name, expected);
  check_type(name, array, array_type::float64);
  return finite(name, copy<double>(array));
}

std::vector<double> source_reader::thresholds(const std::string& name, const std::vector<std::int64_t>& expected) {
  const array_view& array = find(name, expected);
  if (array.type == array_type::float32) {
    const std::vector<float> values = copy<float>(array);
    return {values.begin(), values.end()};
  }
  check_type(name, array, array_type::float64);
  return copy<double>(array);
}

void source_reader::finish() const {
  for (const auto& [name, value] : source_.settings) {
    if (!settings_read_.contains(name)) refuse(name, -1, "no such setting is known for a " + source_.kind);
  }
  for (const auto& [name, array] : source_.arrays) {
    if (!arrays_read_.contains(name)) refuse(name, -1, "no such array is known for a " + source_.kind);
  }
}

}  // namespace warploom
