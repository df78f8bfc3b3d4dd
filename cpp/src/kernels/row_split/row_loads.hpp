// How many columns a thread of row_split holds, and how many rows of B it loads at once.
#pragma once

#include <cstddef>

namespace warploom {

// Two vectors of two-byte values. Measured on an H200: of wider ones, as many columns are no faster.
constexpr int most_columns_per_thread(std::size_t value_bytes) { return value_bytes == 2 ? 16 : 8; }

// Few where a grid fills the GPU, many where it does not; for tests, always few or always many. The results are the
// same.
enum class row_loads { by_size, few, many };
void choose_row_loads(row_loads when);
row_loads chosen_row_loads();

}  // namespace warploom
