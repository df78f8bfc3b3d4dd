// Rows as kernels take them by value: whole ones, and rows cut into pieces that several groups of threads work on and
// that meet in a workspace (last_arrival.cuh). Device code only.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/device/values.cuh"

namespace warploom::cuda {

// Row offsets, 32-bit whenever the number of nonzeros allows. The branch is uniform over the grid, which costs less
// than compiling every kernel twice.
struct offsets_view {
  const void* offsets;
  bool wide;

  __device__ std::int64_t operator[](std::int64_t i) const {
    return wide ? static_cast<const std::int64_t*>(offsets)[i] : static_cast<const std::int32_t*>(offsets)[i];
  }
};

// The stored rows of row_storage, and the rows of C without a stored row, which must still be written.
template <class Value>
struct rows_view {
  std::int64_t num_stored_rows;
  std::int64_t num_empty_rows;
  offsets_view indptr;
  const std::int32_t* row_ids;  // null: stored row p produces row p of C
  const std::int32_t* empty_rows;
  const std::int32_t* indices;
  const Value* data;

  __device__ std::int64_t row_of(std::int64_t stored_row) const { return row_ids ? row_ids[stored_row] : stored_row; }
};

// The segments of a cut row: slots first .. first + count of the workspace.
struct row_segments {
  std::int32_t first;
  std::int32_t count;
};

// Cut rows of SpMV: one partial sum for each piece.
template <class Value>
struct cut_rows_view {
  const row_segments* rows;
  sum_type_t<Value>* workspace;
  unsigned* arrived;  // one for each row, zero between runs
};

// A cut row whose pieces another kernel adds up (kernels/spmm/long_rows.cuh).
struct long_row {
  std::int32_t row;
  row_segments pieces;
};

// As the most pieces of a row that is no long row: there are no long rows.
inline constexpr int any_number_of_pieces = std::numeric_limits<int>::max();

// Rows cut into segments for SpMM: a row of partial sums for each piece.
template <class Value>
struct segments_view {
  unsigned num_segments;
  const int4* segments;  // row, begin, length, partial (-1: the row is not cut)
  const std::int32_t* indices;
  const Value* data;
  const std::int32_t* split_of_partial;
  const row_segments* splits;
  sum_type_t<Value>* workspace;  // [number of partials][workspace_columns]
  unsigned* arrived;             // [number of splits][column tiles], zero between runs
  int workspace_columns;
  int most_pieces = any_number_of_pieces;  // of a row that is no long row
  const long_row* long_rows = nullptr;
  unsigned num_long_rows = 0;
  const long_row* rows_of_warps = nullptr;  // further long rows, of so few pieces that a warp adds them up
  unsigned num_rows_of_warps = 0;

  __device__ sum_type_t<Value>* slot(std::int64_t partial) const { return workspace + partial * workspace_columns; }
};

// The sum of the products of the nonzeros begin, begin + step, ... before end.
template <int Unroll, class Value>
__device__ __forceinline__ sum_type_t<Value> strided_sum(unsigned begin, unsigned end, unsigned step,
                                                         const std::int32_t* __restrict__ indices,
                                                         const Value* __restrict__ data, const Value* __restrict__ x) {
  sum_type_t<Value> sum = 0;
#pragma unroll Unroll
  for (unsigned j = begin; j < end; j += step)
    sum += widen(read_once(data + j)) * widen(read_only(x + __ldcs(indices + j)));
  return sum;
}

}  // namespace warploom::cuda
