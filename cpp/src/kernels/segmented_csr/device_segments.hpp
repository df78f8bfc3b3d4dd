// The segments of segmented_csr in GPU memory, made there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device_csr.hpp"
#include "kernels/device/rows.cuh"
#include "kernels/segmented_csr/segmented_csr.hpp"

namespace warploom::cuda {

// How rows become segments, which are in the order of the rows unless this says otherwise.
struct segment_shape {
  int segment_length;
  bool longest_first = false;
  // Those of cut rows come first, in the order of the column in their middle: what works on them at the same time reads
  // the same part of B.
  bool by_column = false;
  // More than 0: the segments of cut rows come first. Then neighbouring rows share segments of about so many rows and
  // nonzeros: first stored row, begin, length, minus the number of rows. These are never sorted.
  int joined = 0;
  int most_pieces = any_number_of_pieces;  // of a row that is no long row
  int most_pieces_of_warp = 0;             // of a long row that is among rows_of_warps

  bool cut_rows_first() const { return joined > 0 || by_column; }
};

struct rows_to_cut {
  const std::int32_t* indptr;  // on the device
  const std::int32_t* indices;
  std::int64_t num_rows;
  std::int64_t num_cols;
  std::int64_t longest_row;  // at least as long as every row
};

struct segment_list {
  device_array<int4> segments;                  // row, begin, length, partial (-1: the row is not cut)
  device_array<std::int32_t> split_of_partial;  // [number of partial sums]
  device_array<row_segments> splits;            // one for each cut row
  // Those with more than `most_pieces`, in no order: from the beginning on those of thread blocks, and up to the end
  // those of warps.
  device_array<long_row> long_rows;
  unsigned num_long_rows = 0;
  unsigned num_rows_of_warps = 0;

  // `row_ids` of the stored rows may be null.
  segment_list(const rows_to_cut& rows, const std::int32_t* row_ids, const segment_shape& shape, cudaStream_t stream,
               const device_allocator& allocate);
  segment_list(const device_csr& matrix, const std::int32_t* row_ids, const segment_shape& shape,
               const device_allocator& allocate)
      : segment_list(
            {matrix.indptr32(), matrix.indices(), matrix.num_rows(), matrix.num_cols(), matrix.summary().longest_row},
            row_ids, shape, matrix.stream(), allocate) {}
  std::size_t bytes() const { return segments.bytes() + split_of_partial.bytes() + splits.bytes() + long_rows.bytes(); }
};

}  // namespace warploom::cuda
