// Rows cut into segments, numbered on the host, and the workspace on the device for their partial sums.
#pragma once

#include <cstdint>
#include <vector>

#include "device/runtime.hpp"
#include "kernels/device/rows.cuh"

namespace warploom::cuda {

// Segments of a row have neighbouring slots; rows are numbered in the order in which they are added.
struct host_cut_rows {
  std::vector<row_segments> rows;
  std::int32_t num_slots = 0;

  // Begins another row; returns its number.
  std::int32_t add_row() {
    rows.push_back({num_slots, 0});
    return static_cast<std::int32_t>(rows.size()) - 1;
  }
  // Adds a segment to the last row; returns its slot.
  std::int32_t add_segment() {
    ++rows.back().count;
    return num_slots++;
  }
};

template <class Value>
class device_cut_rows {
 public:
  device_cut_rows(const host_cut_rows& host, const device_allocator& allocate)
      : rows_(upload(host.rows.data(), host.rows.size(), allocate)),
        workspace_(host.num_slots, allocate),
        arrived_(host.rows.size(), allocate) {
    if (arrived_.size() > 0) WARPLOOM_CUDA_CHECK(cudaMemset(arrived_.data(), 0, arrived_.bytes()));
  }

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
