// Rows cut into segments that different groups of threads work on. Each piece of a cut row leaves its partial sums in a
// workspace; the piece that arrives last adds them up in their order, so that the result does not depend on which one
// that was. Device code only; includes nothing of the host side.
#pragma once

#include <cstdint>

namespace warploom::cuda {

// The pieces of a cut row: slots first .. first + count of the workspace.
struct split_row_slots {
  std::int32_t first;
  std::int32_t count;
};

template <class Value>
struct segments_view {
  unsigned num_segments;
  const int4* segments;  // row, begin, length, partial (-1: the row is not cut)
  const std::int32_t* indices;
  const Value* data;
  const std::int32_t* split_of_partial;
  const split_row_slots* splits;
  Value* workspace;   // [number of partials][workspace_columns]
  unsigned* arrived;  // [number of splits][column tiles], zero between runs
  int workspace_columns;

  __device__ Value* slot(std::int64_t partial) const { return workspace + partial * workspace_columns; }
};

// One group's part in a cut row, for tile `tile` of `tiles` tiles of columns.
template <class Value>
struct cut_row {
  split_row_slots slots;
  unsigned* arrived;

  __device__ cut_row(const segments_view<Value>& matrix, bool cut, int partial, unsigned tile, unsigned tiles) {
    const int split = cut ? matrix.split_of_partial[partial] : 0;
    slots = cut ? matrix.splits[split] : split_row_slots{0, 0};
    arrived = matrix.arrived + std::int64_t{split} * tiles + tile;
  }

  // Whether this group is the last of its row, given that its partial sums are stored. Called by whole warps; groups
  // are `group_size` consecutive lanes, and a group without a piece passes cut = false.
  __device__ bool arrive(bool cut, int group_size) const {
    __threadfence();
    __syncwarp();
    unsigned before = 0;
    if (cut && leads(group_size)) before = atomicAdd(arrived, 1u);
    before = __shfl_sync(0xffffffffu, before, 0, group_size);
    __threadfence();
    return cut && before + 1 == static_cast<unsigned>(slots.count);
  }

  // Called by the last group once it has read the workspace: ready for the next run.
  __device__ void reset(int group_size) const {
    if (leads(group_size)) *arrived = 0;
  }

 private:
  __device__ static bool leads(int group_size) { return (threadIdx.x & (group_size - 1)) == 0; }
};

}  // namespace warploom::cuda
