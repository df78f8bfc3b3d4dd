// How many rows of B a thread of row_split loads at once.
#pragma once

namespace warploom {

// Few where a grid fills the GPU, many where it does not; for tests, always few or always many. The results are the
// same.
enum class row_loads { by_size, few, many };
void choose_row_loads(row_loads when);
row_loads chosen_row_loads();

}  // namespace warploom
