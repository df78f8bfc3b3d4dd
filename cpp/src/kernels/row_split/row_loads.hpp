// How many rows of B a thread of row_split loads at once.
#pragma once

namespace warploom {

// One where a grid fills the GPU, several where it does not; for tests, always one or always several. The results are
// the same.
enum class row_loads { by_size, one_by_one, several };
void choose_row_loads(row_loads when);
row_loads chosen_row_loads();

}  // namespace warploom
