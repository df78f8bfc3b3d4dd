// Lines of a Matrix Market file: judged alike however the text is cut, and as the grammar says.
#include <regex>
#include <string>
#include <vector>

#include "fuzz.hpp"
#include "warploom/matrix_market.hpp"

namespace {

std::int64_t first_bad(std::string_view text, int num_indices, bool has_value, std::size_t piece) {
  warploom::entry_lines lines(num_indices, has_value);
  for (std::size_t at = 0; at < text.size(); at += piece) {
    const std::string_view part = text.substr(at, piece);
    const std::vector<char> copy(part.begin(), part.end());
    if (const std::int64_t bad = lines.check(copy); bad >= 0) return bad;
  }
  return lines.check(std::string_view("\n"));
}

std::int64_t first_bad_by_grammar(const std::string& text, int num_indices, bool has_value) {
  static const std::string blank = "[ \\t\\r]", index = "[+-]?[0-9]+";
  static const std::string value =
      "[+-]?(([0-9]+\\.?[0-9]*|\\.[0-9]+)([eEdD][+-]?[0-9]+)?|[iI][nN][fF]([iI][nN][iI][tT][yY])?|[nN][aA][nN])";
  static const std::regex grammars[] = {
      std::regex(blank + "*(" + index + blank + "+" + index + blank + "*)?"),
      std::regex(blank + "*(" + index + blank + "+" + index + blank + "+" + value + blank + "*)?"),
      std::regex(blank + "*(" + value + blank + "*)?")};
  const std::regex& grammar = grammars[num_indices == 0 ? 2 : has_value];
  std::int64_t line = 0;
  for (std::size_t at = 0; at <= text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (!std::regex_match(text.begin() + static_cast<std::ptrdiff_t>(at),
                          text.begin() + static_cast<std::ptrdiff_t>(end), grammar)) {
      return line;
    }
    at = end + 1;
  }
  return -1;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  warploom::fuzz::numbers from({data, std::min<std::size_t>(size, 600)});  // std::regex is recursive
  const int kind = from.up_to(2);
  const std::size_t piece = 1 + from.up_to(20);
  const int num_indices = kind == 2 ? 0 : 2;
  const bool has_value = kind > 0;
  const std::string text(from.rest());
  const std::int64_t whole = first_bad(text, num_indices, has_value, text.size() + 1);
  warploom::fuzz::require(whole == first_bad(text, num_indices, has_value, piece), "pieces are judged differently");
  warploom::fuzz::require(whole == first_bad_by_grammar(text, num_indices, has_value), "not as the grammar says");
  return 0;
}
