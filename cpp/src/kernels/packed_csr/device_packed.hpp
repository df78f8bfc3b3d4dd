// A packed-csr matrix in GPU memory, made there from CSR.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device_csr.hpp"
#include "device/runtime.hpp"
#include "kernels/packed_csr/packed_csr.hpp"
#include "warploom/device.hpp"

namespace warploom::cuda {

// The arrays are those of to_packed.
class device_packed {
 public:
  // Enqueued on the stream of the matrix, which is waited for once, when the sizes of the arrays are known: they are
  // not complete on return. Stored row p produces row row_ids[p], or row p if `row_ids` is null. The matrix has 32-bit
  // offsets. Throws what check_packed throws.
  device_packed(const device_csr& matrix, const std::int32_t* row_ids, int entries_per_lane, int steps,
                const device_allocator& allocate);

  int entries_per_lane() const { return entries_per_lane_; }
  int steps() const { return steps_; }
  std::int64_t num_warps() const { return static_cast<std::int64_t>(lanes_.size()) / lanes_per_warp(); }
  std::int32_t num_partials() const { return num_partials_; }
  std::size_t num_pieces() const { return pieces_.size(); }
  std::size_t num_empty_rows() const { return empty_rows_.size(); }
  const std::uint32_t* lanes() const { return lanes_.data(); }
  const std::int32_t* indices() const { return indices_.data(); }
  template <class Value>
  const Value* values() const {
    return reinterpret_cast<const Value*>(data_.data());
  }
  const packed_segment* pieces() const { return pieces_.data(); }
  const std::int32_t* empty_rows() const { return empty_rows_.data(); }
  value_array all_values() const { return {data_.data(), static_cast<std::int64_t>(indices_.size())}; }
  std::size_t bytes() const {
    return lanes_.bytes() + indices_.bytes() + data_.bytes() + pieces_.bytes() + empty_rows_.bytes();
  }

  // The same matrix in host memory.
  packed_csr download() const;

 private:
  std::int64_t lanes_per_warp() const { return std::int64_t{32} * steps_; }

  std::int64_t num_rows_;
  std::int64_t num_cols_;
  std::int64_t nnz_;
  value_type dtype_;
  cudaStream_t stream_;
  int entries_per_lane_;
  int steps_;
  std::int32_t num_partials_ = 0;
  device_array<std::uint32_t> lanes_;
  device_array<std::int32_t> indices_;
  device_array<std::byte> data_;
  device_array<packed_segment> pieces_;
  device_array<std::int32_t> empty_rows_;
};

}  // namespace warploom::cuda
