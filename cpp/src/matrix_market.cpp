#include "warploom/matrix_market.hpp"

#include <algorithm>

namespace warploom {
namespace {

// Classes of characters. A letter has a class of its own if a word has it.
enum : std::uint8_t { other, digit, sign, dot, blank, newline, e, d, i, n, f, t, y, a };

constexpr std::array<std::uint8_t, 256> make_classes() {
  std::array<std::uint8_t, 256> classes{};
  for (int c = '0'; c <= '9'; ++c) classes[c] = digit;
  classes['+'] = classes['-'] = sign;
  classes['.'] = dot;
  classes[' '] = classes['\t'] = classes['\r'] = blank;
  classes['\n'] = newline;
  constexpr char letters[] = "edinftya";
  for (int k = 0; letters[k] != '\0'; ++k) {
    classes[static_cast<unsigned char>(letters[k])] = static_cast<std::uint8_t>(e + k);
    classes[static_cast<unsigned char>(letters[k] - 'a' + 'A')] = static_cast<std::uint8_t>(e + k);
  }
  return classes;
}

constexpr std::array<std::uint8_t, 256> class_of = make_classes();

constexpr std::uint8_t bad = 0;
constexpr std::uint8_t line_start = 1;
constexpr std::uint8_t entry_end = 2;  // the start of a line, too: of one behind an entry

}  // namespace

std::uint8_t entry_lines::add_state() {
  states_.push_back({});  // every character is bad
  return static_cast<std::uint8_t>(states_.size() - 1);
}

// Letter after letter from a state on; what follows the last one is what follows in `like`. Returns the last state.
std::uint8_t entry_lines::add_word(std::uint8_t from, const char* word, std::uint8_t like) {
  for (; *word != '\0'; ++word) {
    const std::uint8_t next = add_state();
    states_[from][class_of[static_cast<unsigned char>(*word)]] = next;
    from = next;
  }
  states_[from][blank] = states_[like][blank];
  states_[from][newline] = states_[like][newline];
  return from;
}

entry_lines::entry_lines(int num_indices, bool has_value) {
  add_state();                        // bad: there is no way out
  std::uint8_t before = add_state();  // line_start, and later the blanks before a field
  add_state();                        // entry_end, from which it goes on as from line_start
  states_[before][newline] = line_start;
  for (int field = 0; field < num_indices; ++field) {
    const std::uint8_t after_sign = add_state();
    const std::uint8_t digits = add_state();
    const std::uint8_t behind = add_state();
    states_[before][blank] = before;
    states_[before][sign] = after_sign;
    states_[before][digit] = states_[after_sign][digit] = states_[digits][digit] = digits;
    states_[digits][blank] = behind;
    if (!has_value && field + 1 == num_indices) {
      states_[digits][newline] = states_[behind][newline] = entry_end;
      states_[behind][blank] = behind;
    }
    before = behind;
  }
  if (has_value) {
    const std::uint8_t after_sign = add_state();
    const std::uint8_t whole = add_state();
    const std::uint8_t only_dot = add_state();
    const std::uint8_t fraction = add_state();
    const std::uint8_t exponent = add_state();
    const std::uint8_t exponent_sign = add_state();
    const std::uint8_t exponent_digits = add_state();
    const std::uint8_t behind = add_state();
    states_[before][blank] = before;
    states_[before][sign] = after_sign;
    for (const std::uint8_t start : {before, after_sign}) {
      states_[start][digit] = whole;
      states_[start][dot] = only_dot;
    }
    states_[whole][digit] = whole;
    states_[whole][dot] = states_[only_dot][digit] = states_[fraction][digit] = fraction;
    states_[exponent][sign] = exponent_sign;
    states_[exponent][digit] = states_[exponent_sign][digit] = states_[exponent_digits][digit] = exponent_digits;
    for (const std::uint8_t number : {whole, fraction}) states_[number][e] = states_[number][d] = exponent;
    for (const std::uint8_t end : {whole, fraction, exponent_digits, behind}) {
      states_[end][blank] = behind;
      states_[end][newline] = entry_end;
    }
    const std::uint8_t inf = add_word(after_sign, "inf", behind);
    add_word(inf, "inity", behind);
    add_word(after_sign, "nan", behind);
    states_[before][i] = states_[after_sign][i];
    states_[before][n] = states_[after_sign][n];
  }
  states_[entry_end] = states_[line_start];
  state_ = line_start;
}

std::int64_t entry_lines::check(std::span<const char> piece) {
  std::uint8_t state = state_;
  std::size_t at = 0;
  for (; at < piece.size() && state != bad; ++at) {
    state = states_[state][class_of[static_cast<unsigned char>(piece[at])]];
    entries_ += state == entry_end;
  }
  state_ = state;
  if (state == bad && at > 0) --at;  // the bad character itself, which may be the end of its line
  line_ += std::count(piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  return state == bad ? line_ : -1;
}

}  // namespace warploom
