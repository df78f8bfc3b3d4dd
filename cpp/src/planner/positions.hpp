// Where a plan stores each value of its matrix, found by preparing it from a matrix whose values are their own
// positions.
//
// Preparation moves values as words of their size without looking at them, so the word of position j arrives wherever
// value j belongs. All other places hold words that the pattern alone decides: zeros, or distances between columns in
// compressed-sell. The top bit tells the two apart, as no distance has it. Words of 16 bits are too few for that: the
// matrix is prepared twice, and a place whose words are the same both times holds no value.
#pragma once

#include <cstdint>

#include "host_device.hpp"

namespace warploom {

// How often the matrix is prepared with positions for values.
template <class Word>
inline constexpr int position_rounds = sizeof(Word) == 2 ? 2 : 1;

// The word of position j < 2^31.
template <class Word>
WARPLOOM_HOST_DEVICE constexpr Word position_word(std::uint32_t j, int round) {
  if constexpr (sizeof(Word) == 2) {
    return static_cast<Word>(round == 0 ? j : j + 1 + (j >> 16));
  } else {
    return Word{1} << (8 * sizeof(Word) - 1) | j;
  }
}

// What the map has for a place: the position of its value and one, or 0 if it holds none. `first` is what the map has
// after the first round.
template <class Word>
WARPLOOM_HOST_DEVICE constexpr std::uint32_t read_position(Word word, int round, std::uint32_t first) {
  if constexpr (sizeof(Word) == 2) {
    if (round == 0) return word;
    if (word == first) return 0;
    const std::uint32_t high = (word - first - 1) & 0xffffu;
    return ((high << 16 | first) & 0x7fffffffu) + 1;
  } else {
    constexpr int top = 8 * sizeof(Word) - 1;
    return word >> top != 0 ? (static_cast<std::uint32_t>(word) & 0x7fffffffu) + 1 : 0;
  }
}

}  // namespace warploom
