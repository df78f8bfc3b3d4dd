// Compressed-sell (warploom/formats/compressed_sell.hpp) in GPU memory, made there from CSR.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "device/device_csr.hpp"
#include "device/runtime.hpp"
#include "warploom/formats/compressed_sell.hpp"

namespace warploom::cuda {

class device_compressed_sell {
 public:
  // Throws as to_compressed_sell does, and what `check_places` throws when it is told what compressed_sell_places
  // gives. The matrix has 32-bit offsets.
  device_compressed_sell(const device_csr& matrix, const compressed_sell_options& options,
                         const std::function<void(std::int64_t)>& check_places, const device_allocator& allocate);
  // An upload.
  device_compressed_sell(const compressed_sell_matrix& matrix, const device_allocator& allocate, cudaStream_t stream);

  const compressed_sell_options& options() const { return options_; }
  std::int64_t num_rows() const { return num_rows_; }
  std::int64_t num_segments() const { return static_cast<std::int64_t>(segments_.size()); }
  const sell_segment* segments() const { return segments_.data(); }
  const std::byte* indices() const { return indices_.data(); }
  template <class Value>
  const Value* values() const {
    return reinterpret_cast<const Value*>(data_.data());
  }
  value_array all_values() const { return {data_.data(), static_cast<std::int64_t>(data_.size() / size_of(dtype_))}; }
  const std::int32_t* row_ids() const { return row_ids_.data(); }  // null: the rows in their order
  std::size_t bytes() const { return segments_.bytes() + indices_.bytes() + data_.bytes() + row_ids_.bytes(); }
  compressed_sell_matrix download() const;

 private:
  std::int64_t num_rows_;
  std::int64_t num_cols_;
  std::int64_t nnz_;
  value_type dtype_;
  compressed_sell_options options_;
  cudaStream_t stream_ = nullptr;
  device_array<sell_segment> segments_;
  device_array<std::byte> indices_;
  device_array<std::byte> data_;
  device_array<std::int32_t> row_ids_;
};

}  // namespace warploom::cuda
