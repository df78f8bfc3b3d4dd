// The segments of segmented_csr in GPU memory, made there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device_csr.hpp"
#include "kernels/device/rows.cuh"
#include "kernels/segmented_csr/segmented_csr.hpp"

namespace warploom::cuda {

struct segment_list {
  device_array<int4> segments;                  // row, begin, length, partial (-1: the row is not cut)
  device_array<std::int32_t> split_of_partial;  // [number of partial sums]
  device_array<row_segments> splits;            // one for each cut row
  device_array<long_row> long_rows;             // those with more than `most_pieces`, in no order
  std::size_t num_long_rows = 0;                // of which so many are there

  // Of rows with these offsets on the device, of which none is longer than `longest_row`. `row_ids` may be null.
  //
  // With `joined` > 0, the segments of cut rows come first. Then neighbouring rows share segments of about so many rows
  // and nonzeros: first stored row, begin, length, minus the number of rows. These are never sorted.
  segment_list(const std::int32_t* indptr, std::int64_t num_rows, std::int64_t longest_row, const std::int32_t* row_ids,
               int segment_length, bool longest_first, cudaStream_t stream, const device_allocator& allocate,
               int joined = 0, int most_pieces = any_number_of_pieces);
  // `row_ids` of the stored rows may be null.
  segment_list(const device_csr& matrix, const std::int32_t* row_ids, int segment_length, bool longest_first,
               const device_allocator& allocate, int joined = 0, int most_pieces = any_number_of_pieces);
  std::size_t bytes() const { return segments.bytes() + split_of_partial.bytes() + splits.bytes() + long_rows.bytes(); }
};

}  // namespace warploom::cuda
