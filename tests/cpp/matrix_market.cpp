// Lines of entries are numbers and nothing else, however the text is cut into pieces.
#include "warploom/matrix_market.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace warploom {
namespace {

std::int64_t first_bad_line(const std::string& text, int num_indices, bool has_value, std::size_t piece_size) {
  entry_lines lines(num_indices, has_value);
  for (std::size_t at = 0; at < text.size(); at += piece_size) {
    const std::int64_t bad = lines.check(std::string_view(text).substr(at, piece_size));
    if (bad >= 0) return bad;
  }
  return lines.check(std::string_view("\n"));
}

void check_line(const std::string& line, int num_indices, bool has_value, bool good) {
  CAPTURE(line);
  for (const std::string ending : {"", "\n", "\r\n", " \t\n\n"}) {
    const std::string before = num_indices == 2 ? has_value ? "1 1 1\n\n" : "1 1\n\n" : "1\n\n";
    for (const std::size_t piece_size : {1, 3, 1000}) {
      CHECK(first_bad_line(before + line + ending, num_indices, has_value, piece_size) == (good ? -1 : 2));
    }
  }
}

}  // namespace

TEST_CASE("entry_lines: values") {
  for (const std::string number : {"1", "0", "1.5", "1.", ".5", "1e5", "1E+05", "1.5e-300", "1d5", "1.5D-05", ".5d0"}) {
    for (const std::string sign : {"", "-", "+"}) check_line("12 3 " + sign + number, 2, true, true);
  }
  for (const std::string number : {"inf", "-Inf", "INFINITY", "+infinity", "nan", "-NaN"}) {
    check_line("\t 12 3\t" + number, 2, true, true);
    check_line(number, 0, true, true);
  }
  for (const std::string number :
       {"1,5",   "0x10", "1.5.5",     "1e",  "1e-",    "1e5e5", "1e5.5", "1-5",    "1+105", "--1",
        "-",     ".",    "e5",        ".e5", "1d",     "1f",    "1 2",   "1 % no", "1_000", "i",
        "infin", "infx", "infinityy", "na",  "nan(1)", "nand",  "1\v",   "1\x80"}) {
    check_line("12 3 " + number, 2, true, false);
    check_line(number, 0, true, false);
  }
  check_line(std::string("1 1 1\0", 6), 2, true, false);
}

TEST_CASE("entry_lines: indices") {
  check_line("  12\t3  ", 2, false, true);
  check_line("-1 +3", 2, false, true);  // whether they are of the matrix is for others to say
  for (const std::string line : {"1", "1 ", "1 2 3", "1 2.", "1.0 2", "1e0 2", "1 x", "- 2", "1,2", "% no"}) {
    check_line(line, 2, false, false);
  }
  for (const std::string line : {"1", "1 2", "1 2 ", "1.5 2 3", "1 2 3 4", "1 2 3 -"}) check_line(line, 2, true, false);
}

TEST_CASE("entry_lines: entries are counted, empty lines are not") {
  const std::string text = "\n1 1 1\n \t\n\r\n2 2 nan \r\n  3 3 -1e5\n\n4 4 4";
  for (const std::size_t piece_size : {1, 3, 1000}) {
    entry_lines lines(2, true);
    for (std::size_t at = 0; at < text.size(); at += piece_size) {
      CHECK(lines.check(std::string_view(text).substr(at, piece_size)) == -1);
    }
    CHECK(lines.entries() == 3);
    CHECK(lines.check(std::string_view("\n")) == -1);
    CHECK(lines.entries() == 4);
  }
}

TEST_CASE("entry_lines: no text, and no lines") {
  CHECK(first_bad_line("", 2, true, 1) == -1);
  CHECK(first_bad_line("\n \n\r\n", 2, true, 1) == -1);
  CHECK(first_bad_line("\n \n\r\n", 0, true, 1) == -1);
}

}  // namespace warploom
