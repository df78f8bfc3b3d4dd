// padded_csr in GPU memory, made there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/device_csr.hpp"
#include "kernels/padded_csr/padded_csr.hpp"

namespace warploom::cuda {

class device_padded {
 public:
  // `row_ids` may be null.
  device_padded(const device_csr& matrix, std::shared_ptr<const std::int32_t> row_ids,
                const device_allocator& allocate);

  std::int64_t num_rows() const { return num_rows_; }
  int width() const { return width_; }
  const std::int32_t* row_ids() const { return row_ids_.get(); }
  const std::int32_t* indices() const { return indices_.data(); }
  template <class Value>
  const Value* data() const {
    return reinterpret_cast<const Value*>(data_.data());
  }
  value_array all_values() const { return {data_.data(), static_cast<std::int64_t>(indices_.size())}; }
  std::size_t bytes() const {
    return (row_ids_ ? num_rows_ * sizeof(std::int32_t) : 0) + indices_.bytes() + data_.bytes();
  }

 private:
  std::int64_t num_rows_;
  int width_;
  std::shared_ptr<const std::int32_t> row_ids_;
  device_array<std::int32_t> indices_;
  device_array<std::byte> data_;
};

}  // namespace warploom::cuda
