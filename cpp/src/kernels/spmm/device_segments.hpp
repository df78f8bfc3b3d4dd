// segmented_csr on the device, with the workspace for the partial sums of cut rows.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "device/runtime.hpp"
#include "kernels/csr/row_storage.hpp"
#include "kernels/device/rows.cuh"
#include "kernels/segmented_csr/segmented_csr.hpp"

namespace warploom::cuda {

template <class Value>
class device_segments {
 public:
  // Room for products with `columns` columns, computed in `tiles` tiles of columns.
  device_segments(const segmented_csr& matrix, const row_storage& rows, std::int64_t columns, std::size_t tiles,
                  const device_allocator& allocate)
      : columns_(static_cast<int>(columns)),
        segments_(upload(reinterpret_cast<const int4*>(matrix.segments.data()), matrix.segments.size(), allocate)),
        indices_(upload(rows.indices, rows.nnz(), allocate)),
        data_(upload(static_cast<const Value*>(rows.data), rows.nnz(), allocate)) {
    static_assert(sizeof(segment) == sizeof(int4));
    std::vector<std::int32_t> split_of_partial;
    std::vector<row_segments> splits;
    for (const split_row& row : matrix.split_rows) {
      split_of_partial.insert(split_of_partial.end(), row.count, static_cast<std::int32_t>(splits.size()));
      splits.push_back({row.first_partial, row.count});
    }
    split_of_partial_ = upload(split_of_partial.data(), split_of_partial.size(), allocate);
    splits_ = upload(splits.data(), splits.size(), allocate);
    workspace_ = {split_of_partial.size() * columns_, allocate};
    arrived_ = {splits.size() * tiles, allocate};
    if (arrived_.size() > 0) WARPLOOM_CUDA_CHECK(cudaMemset(arrived_.data(), 0, arrived_.bytes()));
  }

  segments_view<Value> view() const {
    return {static_cast<unsigned>(segments_.size()),
            segments_.data(),
            indices_.data(),
            data_.data(),
            split_of_partial_.data(),
            splits_.data(),
            workspace_.data(),
            arrived_.data(),
            columns_};
  }

  int columns() const { return columns_; }
  std::size_t size() const { return segments_.size(); }
  std::size_t bytes() const {
    return segments_.bytes() + indices_.bytes() + data_.bytes() + split_of_partial_.bytes() + splits_.bytes() +
           workspace_.bytes() + arrived_.bytes();
  }

 private:
  int columns_;
  device_array<int4> segments_;
  device_array<std::int32_t> indices_;
  device_array<Value> data_;
  device_array<std::int32_t> split_of_partial_;
  device_array<row_segments> splits_;
  device_array<Value> workspace_;
  device_array<unsigned> arrived_;
};

}  // namespace warploom::cuda
