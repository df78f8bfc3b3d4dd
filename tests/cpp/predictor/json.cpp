#include "warploom/json.hpp"

#include <string>

#include "support.hpp"

namespace warploom {

TEST_CASE("JSON values of every type") {
  const json value = parse_json(R"( {"b": [1, -2.5e1, true, null], "a": {"": false}, "c": "x\n\u00e9\ud83d\ude00"} )");
  const json::array& numbers = *value.find("b")->as_array();
  CHECK(*numbers[0].as_integer() == 1);
  CHECK(*numbers[1].as_real() == -25);
  CHECK(*numbers[2].as_bool());
  CHECK(numbers[3].is_null());
  CHECK(!*value.find("a")->find("")->as_bool());
  CHECK(*value.find("c")->as_string() == "x\n\xC3\xA9\xF0\x9F\x98\x80");
  CHECK(value.find("d") == nullptr);
  CHECK(numbers[0].find("a") == nullptr);
  CHECK(value.as_object()->front().name == "a");
  CHECK(*parse_json("9223372036854775807").as_integer() == INT64_MAX);
  CHECK(*parse_json("\"\xED\x9F\xBF\"").as_string() == "\xED\x9F\xBF");
  double number = 0;
  CHECK(numbers[0].to_double(number));
  CHECK(number == 1);
  CHECK(!numbers[2].to_double(number));
}

TEST_CASE("what is not strictly JSON is refused") {
  const auto message = [](const std::string& text) {
    const error e = test::error_of([&] { parse_json(text); });
    CHECK(e.kind() == error_kind::profile);
    return std::string(e.what());
  };
  for (const char* text : {"",
                           " ",
                           "{",
                           "[1",
                           "[1,]",
                           "{\"a\":1,}",
                           "{a:1}",
                           "{\"a\" 1}",
                           "{1:1}",
                           "1 2",
                           "01",
                           "-",
                           "+1",
                           ".5",
                           "1.",
                           "1e",
                           "1e+",
                           "0x1",
                           "tru",
                           "nul",
                           "'a'",
                           "\"a",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\u12g4\"",
                           "\"a\nb\"",
                           "{\"a\":1]",
                           "9223372036854775808",
                           "1e999",
                           "1e-999",
                           "\xEF\xBB\xBF{}"}) {
    CAPTURE(text);
    CHECK(message(text).find("JSON is malformed") == 0);
  }
  for (const char* bytes : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                            "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xC3", "\xE2\x82", "\xFF"}) {
    CHECK(message('"' + std::string(bytes) + '"').find("not UTF-8") != std::string::npos);
  }
  for (const char* text : {"NaN", "Infinity", "-Infinity"}) {
    CHECK(message(text).find("is not a number") != std::string::npos);
  }
  CHECK(message(R"({"a": 1, "b": 2, "a": 3})").find("a key occurs twice") != std::string::npos);
  CHECK(message(R"({"a": 1, "\u0061": 3})").find("a key occurs twice") != std::string::npos);
  for (const char* text : {R"("\ud800")", R"("\udc00")", R"("\ud800\ud800")", R"("\ud800x")", R"("\ud800\n")"}) {
    CHECK(message(text).find("surrogate") != std::string::npos);
  }
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  CHECK(parse_json(nested(100)).as_array()->size() == 1);
  CHECK(message(nested(1000)).find("nested too deeply") != std::string::npos);
  CHECK(message(std::string(1'000'000, '[')).find("nested too deeply") != std::string::npos);
}

TEST_CASE("errors tell the byte") {
  CHECK(test::error_of([] { parse_json("[1, x]"); }).position() == 4);
}

}  // namespace warploom
