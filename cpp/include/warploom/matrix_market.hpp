// What the lines of a Matrix Market file after its sizes have to look like. The parser that reads their numbers takes
// the longest number that a field begins with and passes over the rest of the line, so that 1d5 would be 1.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace warploom {

// Checks the lines of entries, piece after piece: nothing but `num_indices` integers and, unless the matrix is a
// pattern, a real number, with blanks between them. A decimal exponent begins with e or d, as in Fortran; infinity and
// NaN are written inf, infinity or nan; letters may be upper or lower case. Empty lines are passed over.
class entry_lines {
 public:
  entry_lines(int num_indices, bool has_value);

  // Returns the number of the first bad line, counted from 0 over all pieces, or -1. A line is judged when it ends, or
  // as soon as it is bad; after a bad line there is no more to be read.
  std::int64_t check(std::span<const char> piece);

  // Lines so far that have ended and are not empty.
  std::int64_t entries() const { return entries_; }

 private:
  static constexpr int num_classes = 16;
  using transitions = std::array<std::uint8_t, num_classes>;

  std::uint8_t add_state();
  std::uint8_t add_word(std::uint8_t from, const char* word, std::uint8_t like);

  std::vector<transitions> states_;
  std::uint8_t state_ = 0;
  std::int64_t line_ = 0;
  std::int64_t entries_ = 0;
};

}  // namespace warploom
