// row_storage and padded_csr on the device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "device/runtime.hpp"
#include "kernels/csr/row_storage.hpp"
#include "kernels/device/rows.cuh"
#include "kernels/padded_csr/padded_csr.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom::cuda {

template <class Value>
class device_rows {
 public:
  device_rows(const row_storage& rows, const device_allocator& allocate)
      : num_stored_rows_(rows.num_stored_rows()),
        indices_(upload(rows.indices, rows.nnz(), allocate)),
        data_(upload(static_cast<const Value*>(rows.data), rows.nnz(), allocate)),
        row_ids_(upload(rows.row_ids.data(), rows.row_ids.size(), allocate)) {
    if (rows.nnz() <= std::numeric_limits<std::int32_t>::max()) {
      const std::vector<std::int32_t> narrow(rows.indptr.begin(), rows.indptr.end());
      indptr32_ = upload(narrow.data(), narrow.size(), allocate);
    } else {
      indptr64_ = upload(rows.indptr.data(), rows.indptr.size(), allocate);
    }
    if (!rows.stores_every_row()) {
      std::vector<bool> stored(rows.num_rows, false);
      for (const std::int32_t row : rows.row_ids) stored[row] = true;
      std::vector<std::int32_t> empty;
      empty.reserve(rows.num_rows - num_stored_rows_);
      for (std::int64_t row = 0; row < rows.num_rows; ++row) {
        if (!stored[row]) empty.push_back(static_cast<std::int32_t>(row));
      }
      clears_first_ = 2 * static_cast<std::int64_t>(empty.size()) > rows.num_rows;
      if (!clears_first_) empty_rows_ = upload(empty.data(), empty.size(), allocate);
    }
  }

  // Rows a kernel has to write: those stored, and the empty ones unless C is cleared first.
  std::int64_t num_items() const { return num_stored_rows_ + static_cast<std::int64_t>(empty_rows_.size()); }

  // Where most rows are empty, zeroing all of C at once costs less than zeroing them one by one.
  void clear(const dense_view& C, layout order, cudaStream_t stream) const {
    if (!clears_first_) return;
    const std::size_t lines = order == layout::row_major ? C.num_rows : C.num_cols;
    const std::size_t length = (order == layout::row_major ? C.num_cols : C.num_rows) * sizeof(Value);
    const std::size_t pitch = C.leading_dimension * sizeof(Value);
    if (pitch == length || lines == 1) {
      WARPLOOM_CUDA_CHECK(cudaMemsetAsync(C.data, 0, lines * length, stream));
    } else {
      WARPLOOM_CUDA_CHECK(cudaMemset2DAsync(C.data, pitch, 0, length, lines, stream));
    }
  }

  rows_view<Value> view() const {
    const bool wide = indptr64_.size() > 0;
    return {num_stored_rows_,
            static_cast<std::int64_t>(empty_rows_.size()),
            {wide ? static_cast<const void*>(indptr64_.data()) : indptr32_.data(), wide},
            row_ids_.data(),
            empty_rows_.data(),
            indices_.data(),
            data_.data()};
  }

  std::size_t bytes() const {
    return indptr32_.bytes() + indptr64_.bytes() + indices_.bytes() + data_.bytes() + row_ids_.bytes() +
           empty_rows_.bytes();
  }

 private:
  bool clears_first_ = false;
  std::int64_t num_stored_rows_;
  device_array<std::int32_t> indices_;
  device_array<Value> data_;
  device_array<std::int32_t> row_ids_;
  device_array<std::int32_t> indptr32_;
  device_array<std::int64_t> indptr64_;
  device_array<std::int32_t> empty_rows_;
};

// padded_csr on the device.
template <class Value>
class device_padded {
 public:
  device_padded(const padded_csr& matrix, const device_allocator& allocate)
      : num_rows_(matrix.num_rows),
        width_(matrix.width),
        row_ids_(upload(matrix.row_ids.data(), matrix.row_ids.size(), allocate)),
        indices_(upload(matrix.indices.data(), matrix.indices.size(), allocate)),
        data_(upload(reinterpret_cast<const Value*>(matrix.data.data()), matrix.indices.size(), allocate)) {}

  std::int64_t num_rows() const { return num_rows_; }
  int width() const { return width_; }
  const std::int32_t* row_ids() const { return row_ids_.data(); }
  const std::int32_t* indices() const { return indices_.data(); }
  const Value* data() const { return data_.data(); }
  std::size_t bytes() const { return row_ids_.bytes() + indices_.bytes() + data_.bytes(); }

 private:
  std::int64_t num_rows_;
  int width_;
  device_array<std::int32_t> row_ids_;
  device_array<std::int32_t> indices_;
  device_array<Value> data_;
};

}  // namespace warploom::cuda
