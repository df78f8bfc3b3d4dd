// JSON values, and a reader of them that is strict.
//
// Our own, since what profiles need of JSON is small and has to be stricter than the libraries are by default: a file
// is data from elsewhere, and whatever is not exactly JSON (RFC 8259) in UTF-8 is refused, as are a key that occurs
// twice, half a surrogate pair, numbers that int64 or double cannot hold, and deep nesting. A dependency that every
// build from source has to fetch would cost more than these few lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace warploom {

class json {
 public:
  struct member;
  using array = std::vector<json>;
  using object = std::vector<member>;  // by name, each name once

  json() = default;  // null
  template <class Value>
  explicit json(Value value) : value_(std::move(value)) {}

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }

  // The value if it is of that type, else null. A number without fraction and exponent is an integer.
  const bool* as_bool() const { return std::get_if<bool>(&value_); }
  const std::int64_t* as_integer() const { return std::get_if<std::int64_t>(&value_); }
  const double* as_real() const { return std::get_if<double>(&value_); }
  const std::string* as_string() const { return std::get_if<std::string>(&value_); }
  const array* as_array() const { return std::get_if<array>(&value_); }
  const object* as_object() const { return std::get_if<object>(&value_); }

  // The value of a number, integer or not. Returns whether it is one.
  bool to_double(double& number) const;

  // The member of an object; null if there is none or this is no object.
  const json* find(std::string_view name) const;

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, array, object> value_;
};

struct json::member {
  std::string name;
  json value;
};

// Reads one value. Throws error_kind::profile with what is wrong and at which byte.
json parse_json(std::string_view text);

}  // namespace warploom
