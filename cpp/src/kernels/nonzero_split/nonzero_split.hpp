#pragma once

namespace warploom {

// Nonzeros of the longest row that is not cut, as a multiple of `work`.
inline constexpr int longest_whole_row = 4;

}  // namespace warploom
