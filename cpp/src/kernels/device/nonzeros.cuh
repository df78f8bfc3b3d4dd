// Nonzeros of a CSR matrix distributed evenly over warps, each with its row: one long row takes no longer than many
// short ones. A warp looks up the row of its first nonzero and then walks through `indptr` 32 rows at a time.
//
// Device code only.
#pragma once

#include <cstdint>

#include "kernels/device/warp.cuh"

namespace warploom::cuda {

// How many nonzeros a warp takes: in large matrices many, to amortise the search for a row; small ones need many warps
// instead.
constexpr unsigned nnz_per_warp(std::int64_t nnz) { return nnz >= 1 << 20 ? 512 : 128; }

// The row r in [first, num_rows) with indptr[r] <= j < indptr[r + 1]. Each step probes 32 places at once.
__device__ inline int find_row(const std::int32_t* __restrict__ indptr, int first, int num_rows, unsigned j) {
  const int lane = static_cast<int>(lane_id());
  int end = num_rows;  // indptr[first] <= j < indptr[end]
  while (end - first > 1) {
    const int step = (end - first + 31) / 32;
    const int probe = static_cast<int>(
        min(static_cast<unsigned>(first) + lane * static_cast<unsigned>(step), static_cast<unsigned>(end)));
    const unsigned not_past = ballot(probe < end && static_cast<unsigned>(__ldg(indptr + probe)) <= j);
    first += (__popc(not_past) - 1) * step;
    end = min(end - first, step) + first;
  }
  return first;
}

// Calls visit(nonzero, row, there) for the nonzeros begin .. end, fewer than 2^31, 32 of them at a time and by whole
// warps: lanes past the last nonzero of a step have `there` = false, and those before them have not.
template <class Visit>
__device__ __forceinline__ void for_each_nonzero(const std::int32_t* __restrict__ indptr, int num_rows, unsigned begin,
                                                 unsigned end, Visit&& visit) {
  if (begin >= end) return;  // whole warps
  const int lane = static_cast<int>(lane_id());
  unsigned j = begin;
  int row = find_row(indptr, 0, num_rows, j);
  while (true) {
    // Lane i handles row + i; the nonzeros up to `stop` are in these 32 rows.
    const unsigned start = indptr[min(std::int64_t{row} + lane, std::int64_t{num_rows})];
    const unsigned window_end = indptr[min(std::int64_t{row} + 32, std::int64_t{num_rows})];
    const unsigned stop = min(end, window_end);
#pragma unroll 4
    for (; j < stop; j += 32) {
      const unsigned mine = j + lane;
      int offset = 0;  // the last of the 32 rows that does not start past `mine`
#pragma unroll
      for (int half = 16; half > 0; half /= 2) {
        if (from_lane(start, offset + half) <= mine) offset += half;
      }
      visit(mine, row + offset, mine < stop);
    }
    if (stop == end) return;
    j = stop;
    row = find_row(indptr, row + 32, num_rows, j);  // the next may be far: rows between can be empty
  }
}

}  // namespace warploom::cuda
