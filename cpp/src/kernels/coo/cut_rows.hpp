// Rows cut into segments, and the workspace on the device for their partial sums.
#pragma once

#include <cstdint>

#include "device/runtime.hpp"
#include "kernels/device/rows.cuh"

namespace warploom::cuda {

template <class Value>
class device_cut_rows {
 public:
  // Of rows that have been cut on the device, `num_slots` segments in all.
  device_cut_rows(const device_array<row_segments>& rows, std::int64_t num_slots, const device_allocator& allocate,
                  cudaStream_t stream)
      : rows_(rows), workspace_(num_slots, allocate), arrived_(rows.size(), allocate) {
    if (arrived_.size() > 0) WARPLOOM_CUDA_CHECK(cudaMemsetAsync(arrived_.data(), 0, arrived_.bytes(), stream));
  }

  cut_rows_view<Value> view() const { return {rows_.data(), workspace_.data(), arrived_.data()}; }
  std::size_t bytes() const { return rows_.bytes() + workspace_.bytes() + arrived_.bytes(); }

 private:
  device_array<row_segments> rows_;
  device_array<sum_type_t<Value>> workspace_;
  device_array<unsigned> arrived_;
};

}  // namespace warploom::cuda
