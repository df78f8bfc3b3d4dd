// JSON, as headers of profiles hold it: read or refused.
#include "warploom/json.hpp"

#include <cmath>
#include <vector>

#include "fuzz.hpp"
#include "warploom/error.hpp"

namespace {

using warploom::json;

// Every value can be looked at, and every member be found.
void look_at(const json& value) {
  if (const json::array* const entries = value.as_array()) {
    for (const json& entry : *entries) look_at(entry);
  }
  if (const json::object* const members = value.as_object()) {
    for (const auto& [name, member] : *members) {
      warploom::fuzz::require(value.find(name) == &member, "a member is not found");
      look_at(member);
    }
  }
  double number = 0;
  if (value.to_double(number)) warploom::fuzz::require(std::isfinite(number), "a number is none");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // In memory of its own: a sanitizer sees what is read behind it.
  const std::vector<char> text(data, data + size);
  try {
    look_at(warploom::parse_json({text.data(), text.size()}));
  } catch (const warploom::error& refused) {
    warploom::fuzz::require(refused.kind() == warploom::error_kind::profile, "the error is another one");
  }
  return 0;
}
