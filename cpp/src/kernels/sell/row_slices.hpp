// What the conversions to formats of sliced rows share on the GPU: sorting rows by length, and the widths of slices.
// Everything is enqueued on the stream of the matrix, which has 32-bit offsets.
#pragma once

#include <cstdint>

#include "device/device_csr.hpp"
#include "device/runtime.hpp"

namespace warploom::cuda {

// The rows by decreasing length within every window of `window` rows, rows of one length in their original order.
device_array<std::int32_t> rows_by_length(const device_csr& matrix, std::int64_t window,
                                          const device_allocator& allocate);

struct slice_totals {
  unsigned long long columns;  // of all slices together
  unsigned narrower_than_any;  // 2^31 - 1 less the width of the narrowest slice; 0 without slices
  unsigned widest;
  unsigned moved;  // not 0: some row is not at the place that it has in the matrix
  unsigned unused;

  int narrowest() const { return static_cast<int>(0x7fffffffu - narrower_than_any); }
};

struct slice_shape {
  std::int64_t height = 32;               // rows
  int multiple = 1;                       // of which the width of a slice is one
  const std::int32_t* row_ids = nullptr;  // stored row p is row row_ids[p] of the matrix; null: row p
};

// The width of every slice, which is the length of its longest row, and `totals` of them; both in GPU memory. `widths`
// may be null.
void measure_slices(const device_csr& matrix, const slice_shape& shape, std::int32_t* widths, slice_totals* totals);

}  // namespace warploom::cuda
