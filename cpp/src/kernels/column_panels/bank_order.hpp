// In which order the columns of a panel lie in shared memory.
//
// Where the numbers of vertices mean something, columns are not spread over the banks evenly: in an R-MAT graph those
// that end in zeros have most of the nonzeros, so that half a warp waits for 5.3 gathers from one bank, where 3.1 would
// be as for random columns (float64; a warp in float32 for 7.7, not 3.5). With higher bits added to those that decide
// on the bank it is 3.5 (4.7). Panels are copied 16 bytes at once, within which columns keep their order.
#pragma once

#include "host_device.hpp"

namespace warploom {

// Panels have a multiple of so many columns: reordering stays within the 128 bytes of all banks.
inline constexpr int panel_columns_multiple = 64;

// The place of a column of a panel. Its own inverse.
template <int ValueBytes>
WARPLOOM_HOST_DEVICE constexpr unsigned bank_order(unsigned column) {
  constexpr unsigned copied_at_once = 16 / ValueBytes;
  const unsigned higher = column / copied_at_once >> 3;
  return column ^ ((higher ^ higher >> 3 ^ higher >> 6 ^ higher >> 9) & 7u) * copied_at_once;
}

}  // namespace warploom
