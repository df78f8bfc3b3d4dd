// What kernels of sampled products share: which nonzeros a warp takes, in windows of 32 whatever rows they are in, so
// that a long row is no more work than many short ones. Each lane finds the row and the column of one of the 32; what
// the next window needs of the pattern is under way while the products of this one are formed.
//
// Device code only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/device/rows.cuh"
#include "kernels/device/warp.cuh"

namespace warploom::cuda::sampled {

inline constexpr int warps_per_block = 4;
inline constexpr int window_length = 32;  // nonzeros, one for each lane

// A block takes a run of nonzeros. Its warps take windows of it in turn, because neighbouring rows of the matrix share
// columns; but where rows are short each has a part of the run, so that its next window is in a row nearby.
struct schedule {
  int run_length;
  bool in_turn;
};

inline schedule choose_schedule(std::int64_t num_rows, std::int64_t nnz) {
  constexpr std::int64_t warps_wanted = 16384;  // some for every place of a large GPU
  const bool in_turn = nnz / num_rows >= 16;
  const std::int64_t windows = std::clamp<std::int64_t>(nnz / window_length / warps_wanted, 1, 8);
  return {static_cast<int>(windows) * warps_per_block * window_length, in_turn};
}

template <class Value>
struct product {
  int num_rows;
  int num_cols;
  std::int64_t nnz;
  float rows_per_nonzero;
  schedule by;
  int k;
  offsets_view indptr;
  unsigned offset_bytes;
  const void* indices;
  unsigned index_bytes;
  const Value* X;
  unsigned X_stride;  // bytes from row to row
  const Value* Y;
  unsigned Y_stride;
  Value* out;
};

// The last of the rows first .. end that begins at or before nonzero j, the same for the whole warp: 32 places are
// probed at once. Some row if the offsets are not those of a matrix.
__device__ __forceinline__ int row_of_warp(const offsets_view& indptr, int first, int end, std::int64_t j) {
  const int lane = static_cast<int>(lane_id());
  while (end - first > 1) {
    const int step = (end - first + 31) / 32;
    const std::int64_t probe = first + std::int64_t{lane} * step;
    const unsigned not_past = ballot(probe < end && indptr[probe] <= j);
    first += max(__popc(not_past) - 1, 0) * step;
    end = min(end - first, step) + first;
  }
  return first;
}

// The same of all rows. Most matrices have it near where it would be if all rows were as long: places are probed one by
// one there, and further apart with the distance.
template <class Value>
__device__ __forceinline__ int row_of_warp(const product<Value>& given, std::int64_t j) {
  constexpr int beside = 12, nearest = 32;
  const int lane = static_cast<int>(lane_id());
  int offset = lane - 16;
  if (offset < -beside) offset = -beside - (nearest << 3 * (3 - lane));
  if (offset >= beside) offset = beside + (nearest << 3 * (lane - 28));
  const std::int64_t near = static_cast<std::int64_t>(static_cast<float>(j) * given.rows_per_nonzero) + offset;
  const int probe = static_cast<int>(min(max(near, std::int64_t{0}), std::int64_t{given.num_rows}));
  const bool is_past = probe == given.num_rows || (probe > 0 && given.indptr[probe] > j);
  const int not_past = __popc(ballot(!is_past));
  const int first = not_past == 0 ? 0 : from_lane(probe, not_past - 1);
  const int end = not_past == 32 ? given.num_rows : from_lane(probe, not_past & 31);
  return row_of_warp(given.indptr, first, end, j);
}

// The same for each lane, none of whose rows is before `first`: most are near it.
__device__ __forceinline__ int row_from(const offsets_view& indptr, int num_rows, int first, std::int64_t j) {
  const auto begins_by = [&](int step) { return step < num_rows - first && indptr[std::int64_t{first} + step] <= j; };
  int step = 1;
  while (step < 1 << 30 && begins_by(step)) {
    first += step;
    step *= 2;
  }
  for (step /= 2; step > 0; step /= 2) {
    if (begins_by(step)) first += step;
  }
  return first;
}

// The nonzeros that a warp takes windows of: the one at `first`, and every `step`. Places are counted from the
// beginning of the block's run, in 32 bits.
struct run {
  std::int64_t origin;
  int first;
  int end;
  int step;
  const char* indices;  // from `origin` on

  template <class Value>
  __device__ explicit run(const product<Value>& given) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int length_for_warp = given.by.run_length / warps_per_block;
    origin = std::int64_t{blockIdx.x} * given.by.run_length;
    first = warp * (given.by.in_turn ? window_length : length_for_warp);
    end = given.by.in_turn ? given.by.run_length : first + length_for_warp;
    end = static_cast<int>(min(given.nnz - origin, std::int64_t{end}));
    step = given.by.in_turn ? warps_per_block * window_length : window_length;
    indices = static_cast<const char*>(given.indices) + origin * given.index_bytes;
  }
};

// 32 consecutive nonzeros, as much of the pattern as was loaded: to widen or compare a number is to wait for it.
struct window {
  static constexpr int far = 1 << 30;

  int row;                     // of the first nonzero
  unsigned row_end, high_end;  // where row `row` + lane ends; far from here where there is no such row
  unsigned column;             // of the lane's nonzero, or of the last one of the run

  template <class Value>
  __device__ static window load(const product<Value>& given, const run& here, int row, int begin) {
    const std::uint64_t no_end = here.origin + begin + far;
    window loaded{row, static_cast<unsigned>(no_end), static_cast<unsigned>(no_end >> 32), 0};
    const unsigned next = row + lane_id() + 1;
    if (next < static_cast<unsigned>(given.num_rows)) {
      const char* const from = static_cast<const char*>(given.indptr.offsets);
      const auto* const at = reinterpret_cast<const unsigned*>(from + std::uint64_t{next} * given.offset_bytes);
      loaded.row_end = __ldg(at);
      if (given.indptr.wide) loaded.high_end = __ldg(at + 1);
    }
    const unsigned place = min(begin + static_cast<int>(lane_id()), here.end - 1);
    loaded.column = __ldg(reinterpret_cast<const unsigned*>(here.indices + std::uint64_t{place} * given.index_bytes));
    return loaded;
  }

  // Of row `row` + lane, counted from nonzero `begin`.
  template <class Value>
  __device__ int end_from(const product<Value>& given, std::int64_t begin) const {
    if (!given.indptr.wide) return static_cast<int>(row_end - static_cast<unsigned>(begin));
    const auto end = static_cast<std::int64_t>(std::uint64_t{high_end} << 32 | row_end);
    return static_cast<int>(min(max(end - begin, -std::int64_t{far}), std::int64_t{far}));
  }

  // The last column instead of what is none: the arrays may have changed since they were checked.
  __device__ int column_below(int num_cols) const { return min(column, static_cast<unsigned>(num_cols) - 1); }
};

// The row of each lane's nonzero in the window from nonzero `begin` on, whose rows end at `end`.
template <class Value>
__device__ __forceinline__ int row_of_lane(const product<Value>& given, int first_row, int end, std::int64_t begin) {
  const int lane = static_cast<int>(lane_id());
  const bool ends_here = end < window_length;
  const unsigned ends = warp_or(ends_here ? 1u << (end & 31) : 0);
  if (__popc(ends) == __popc(ballot(ends_here))) return first_row + __popc(ends & (whole_warp >> (31 - lane)));
  // Several rows end at one place: some have no nonzeros.
  int passed = 0;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    if (from_lane(end, passed + step - 1) <= lane) passed += step;
  }
  if (passed < 31) return first_row + passed;
  return row_from(given.indptr, given.num_rows, first_row + passed, min(begin + lane, given.nnz - 1));
}

// Calls `multiply(begin, row, column)` for each window of a run, with the row and the column of the lane's nonzero,
// number `begin` + lane of the run. The last nonzero again for those past the end.
template <class Value, class Function>
__device__ __forceinline__ void for_each_window(const product<Value>& given, const run& here, Function&& multiply) {
  if (here.first >= here.end) return;
  const int first_row = row_of_warp(given, here.origin + here.first);
  window next = window::load(given, here, first_row, here.first);
  for (int begin = here.first; begin < here.end; begin += here.step) {
    const window now = next;
    const int end = now.end_from(given, here.origin + begin);
    if (begin + here.step < here.end) {
      const unsigned passed = ballot(end <= here.step);
      const int next_row = passed != whole_warp
                               ? now.row + __popc(passed)
                               : row_of_warp(given.indptr, now.row, given.num_rows, here.origin + begin + here.step);
      next = window::load(given, here, next_row, begin + here.step);
    }
    multiply(begin, row_of_lane(given, now.row, end, here.origin + begin), now.column_below(given.num_cols));
  }
}

// Whether every row of X and Y lets a lane load `width` values at once.
template <class Value>
bool takes_vectors(const product<Value>& given, int width) {
  const auto addresses = reinterpret_cast<std::uintptr_t>(given.X) | reinterpret_cast<std::uintptr_t>(given.Y);
  const auto bytes = static_cast<unsigned>(width * sizeof(Value));
  return addresses % bytes == 0 && (given.X_stride | given.Y_stride) % bytes == 0 && given.k % width == 0;
}

}  // namespace warploom::cuda::sampled
