// Rows whose sum several warps work on. Each leaves its part in a slot of a workspace; the warp that arrives last adds
// the slots up in their order, so that the sum does not depend on which one that was. Device code only.
#pragma once

#include <cstdint>

#include "kernels/device/slices.cuh"

namespace warploom::cuda {

// The pieces of a row: slots first .. first + count of the workspace.
struct row_pieces {
  std::int32_t first;
  std::int32_t count;
};

template <class Value>
struct cut_rows_view {
  const row_pieces* rows;
  sum_type_t<Value>* workspace;
  unsigned* arrived;  // one for each row, zero between runs
};

// Leaves `part` (the same in every lane) as piece `slot` of cut row `cut`; the last piece writes the row to *y. Called
// by whole warps.
template <class Value>
__device__ __forceinline__ void add_piece(const cut_rows_view<Value>& cut_rows, int cut, int slot,
                                          sum_type_t<Value> part, Value* y) {
  const unsigned lane = threadIdx.x % 32;
  const row_pieces pieces = cut_rows.rows[cut];
  unsigned before = 0;
  if (lane == 0) {
    __stcg(cut_rows.workspace + slot, part);
    __threadfence();
    before = atomicAdd(cut_rows.arrived + cut, 1u);
  }
  before = __shfl_sync(whole_warp, before, 0);
  if (before + 1 != static_cast<unsigned>(pieces.count)) return;  // the whole warp
  __syncwarp();
  __threadfence();
  sum_type_t<Value> sum = 0;
  for (int piece = lane; piece < pieces.count; piece += 32) sum += __ldcg(cut_rows.workspace + pieces.first + piece);
  sum = add_over_columns<1>(sum);
  if (lane == 0) {
    *y = narrow<Value>(sum);
    cut_rows.arrived[cut] = 0;  // ready for the next run
  }
}

}  // namespace warploom::cuda
