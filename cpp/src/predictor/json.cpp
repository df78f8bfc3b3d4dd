#include "warploom/json.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "warploom/error.hpp"

namespace warploom {
namespace {

constexpr int max_depth = 100;

class json_reader {
 public:
  explicit json_reader(std::string_view text) : text_(text) {}

  json read() {
    json value = read_value(0);
    skip_space();
    if (at_ != text_.size()) malformed("there is more after the value");
    return value;
  }

 private:
  [[noreturn]] void malformed(const std::string& message) const {
    refuse("JSON is malformed: " + message + " (byte " + std::to_string(at_) + ")");
  }

  [[noreturn]] void refuse(const std::string& message) const {
    throw error(error_kind::profile, "", static_cast<std::int64_t>(at_), message);
  }

  bool ended() const { return at_ == text_.size(); }
  unsigned char here() const { return static_cast<unsigned char>(text_[at_]); }

  bool take(char expected) {
    if (ended() || text_[at_] != expected) return false;
    ++at_;
    return true;
  }

  bool take(std::string_view expected) {
    if (!text_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }

  void skip_space() {
    while (!ended() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) ++at_;
  }

  json read_value(int depth) {
    if (depth > max_depth) refuse("JSON is nested too deeply");
    skip_space();
    if (ended()) malformed("it ends where a value is expected");
    for (const std::string_view constant : {"NaN", "Infinity", "-Infinity"}) {
      if (text_.substr(at_).starts_with(constant)) malformed(std::string(constant) + " is not a number");
    }
    if (take('{')) return read_object(depth);
    if (take('[')) return read_array(depth);
    if (take('"')) return json(read_string());
    if (take("true")) return json(true);
    if (take("false")) return json(false);
    if (take("null")) return json();
    return read_number();
  }

  json read_object(int depth) {
    json::object members;
    skip_space();
    if (take('}')) return json(std::move(members));
    do {
      skip_space();
      if (!take('"')) malformed("a name is expected");
      std::string name = read_string();
      skip_space();
      if (!take(':')) malformed("':' is expected");
      members.push_back({std::move(name), read_value(depth + 1)});
      skip_space();
    } while (take(','));
    if (!take('}')) malformed("',' or '}' is expected");
    std::sort(members.begin(), members.end(),
              [](const json::member& a, const json::member& b) { return a.name < b.name; });
    const auto same = [](const json::member& a, const json::member& b) { return a.name == b.name; };
    if (std::adjacent_find(members.begin(), members.end(), same) != members.end()) malformed("a key occurs twice");
    return json(std::move(members));
  }

  json read_array(int depth) {
    json::array values;
    skip_space();
    if (take(']')) return json(std::move(values));
    do {
      values.push_back(read_value(depth + 1));
      skip_space();
    } while (take(','));
    if (!take(']')) malformed("',' or ']' is expected");
    return json(std::move(values));
  }

  // The rest of a string whose first quote has been taken.
  std::string read_string() {
    std::string read;
    while (true) {
      if (ended()) malformed("a string does not end");
      const unsigned char c = here();
      if (c < 0x20) malformed("a control character is in a string");
      if (c >= 0x80) {
        read.append(read_character());
      } else if (++at_; c == '"') {
        return read;
      } else if (c == '\\') {
        read_escape(read);
      } else {
        read.push_back(static_cast<char>(c));
      }
    }
  }

  // The bytes of a character beyond ASCII, which are those of the Unicode standard's table 3-7: no overlong form, no
  // surrogate, nothing above U+10FFFF.
  std::string_view read_character() {
    const unsigned char first = here();
    const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    bool valid = first >= 0xC2 && first <= 0xF4 && at_ + length <= text_.size();
    for (std::size_t i = 1; valid && i < length; ++i) valid = (byte(i) & 0xC0) == 0x80;
    if (valid && length > 2) {
      const unsigned char second = byte(1);
      valid = !(first == 0xE0 && second < 0xA0) && !(first == 0xED && second > 0x9F) &&
              !(first == 0xF0 && second < 0x90) && !(first == 0xF4 && second > 0x8F);
    }
    if (!valid) malformed("a string is not UTF-8");
    at_ += length;
    return text_.substr(at_ - length, length);
  }

  unsigned char byte(std::size_t after) const { return static_cast<unsigned char>(text_[at_ + after]); }

  void read_escape(std::string& read) {
    static constexpr std::string_view escapes = "\"\\/bfnrt";
    static constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
    if (ended()) malformed("a string does not end");
    const char c = text_[at_++];
    if (const std::size_t known = escapes.find(c); known != std::string_view::npos) {
      read.push_back(meanings[known]);
    } else if (c == 'u') {
      append_utf8(read, read_code_point());
    } else {
      --at_;
      malformed("there is no such escape");
    }
  }

  std::uint32_t read_code_point() {
    const std::uint32_t unit = read_code_unit();
    if (unit < 0xD800 || unit > 0xDFFF) return unit;
    const bool is_first = unit < 0xDC00;
    if (is_first && take("\\u")) {
      const std::uint32_t second = read_code_unit();
      if (second >= 0xDC00 && second <= 0xDFFF) return 0x10000 + ((unit - 0xD800) << 10) + (second - 0xDC00);
    }
    refuse("JSON has half of a surrogate pair in it");
  }

  std::uint32_t read_code_unit() {
    std::uint32_t unit = 0;
    const std::string_view digits = text_.substr(at_, 4);
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
    if (digits.size() != 4 || status != std::errc() || end != digits.data() + 4) {
      malformed("four hexadecimal digits are expected");
    }
    at_ += 4;
    return unit;
  }

  static void append_utf8(std::string& text, std::uint32_t c) {
    const auto tail = [&](int shift) { text.push_back(static_cast<char>(0x80 | (c >> shift & 0x3F))); };
    if (c < 0x80) {
      text.push_back(static_cast<char>(c));
    } else if (c < 0x800) {
      text.push_back(static_cast<char>(0xC0 | c >> 6));
      tail(0);
    } else if (c < 0x10000) {
      text.push_back(static_cast<char>(0xE0 | c >> 12));
      tail(6);
      tail(0);
    } else {
      text.push_back(static_cast<char>(0xF0 | c >> 18));
      tail(12);
      tail(6);
      tail(0);
    }
  }

  bool take_digits() {
    const std::size_t first = at_;
    while (!ended() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return at_ > first;
  }

  json read_number() {
    const std::size_t first = at_;
    take('-');
    const std::size_t digits = at_;
    if (!take_digits()) malformed("a value is expected");
    if (text_[digits] == '0' && at_ - digits > 1) malformed("a number starts with 0");
    bool is_integer = true;
    if (take('.')) {
      is_integer = false;
      if (!take_digits()) malformed("a digit is expected");
    }
    if (take('e') || take('E')) {
      is_integer = false;
      if (!take('+')) take('-');
      if (!take_digits()) malformed("a digit is expected");
    }
    return is_integer ? number<std::int64_t>(first) : number<double>(first);
  }

  template <class Number>
  json number(std::size_t first) const {
    Number value{};
    const auto [end, status] = std::from_chars(text_.data() + first, text_.data() + at_, value);
    if (status == std::errc::result_out_of_range) malformed("a number is out of range");
    if (status != std::errc() || end != text_.data() + at_) malformed("a number cannot be read");
    return json(value);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

bool json::to_double(double& number) const {
  if (const std::int64_t* const integer = as_integer()) {
    number = static_cast<double>(*integer);
  } else if (const double* const real = as_real()) {
    number = *real;
  } else {
    return false;
  }
  return true;
}

const json* json::find(std::string_view name) const {
  const object* const members = as_object();
  if (!members) return nullptr;
  const auto found = std::lower_bound(members->begin(), members->end(), name,
                                      [](const member& a, std::string_view b) { return a.name < b; });
  return found != members->end() && found->name == name ? &found->value : nullptr;
}

json parse_json(std::string_view text) { return json_reader(text).read(); }

}  // namespace warploom
