// BSR (warploom/formats/bsr.hpp) in GPU memory, converted there from CSR.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "device/device_csr.hpp"
#include "device/runtime.hpp"
#include "warploom/formats/bsr.hpp"

namespace warploom::cuda {

class device_bsr {
 public:
  // What a conversion finds out before it allocates memory for the blocks.
  struct sizes {
    std::int64_t places;
    bool repeats;  // entries of one row and column, which are added up; looked for with values of two bytes only
  };

  // `accept` may throw. Synchronises the stream of the matrix once, to learn the sizes.
  device_bsr(const device_csr& matrix, block_shape block, const std::function<void(const sizes&)>& accept,
             const device_allocator& allocate);

  std::int64_t num_rows() const { return num_rows_; }
  std::int64_t num_cols() const { return num_cols_; }
  value_type dtype() const { return dtype_; }
  std::int64_t num_blocks() const { return static_cast<std::int64_t>(indices_.size()); }
  std::int64_t num_block_rows() const { return (num_rows_ + block_.rows - 1) / block_.rows; }
  int block_size() const { return block_.rows; }
  const std::int32_t* indptr() const { return indptr_.data(); }
  const std::int32_t* indices() const { return indices_.data(); }
  template <class Value>
  const Value* values() const {
    return reinterpret_cast<const Value*>(data_.data());
  }
  value_array all_values() const { return {data_.data(), static_cast<std::int64_t>(data_.size() / size_of(dtype_))}; }
  std::size_t bytes() const { return indptr_.bytes() + indices_.bytes() + data_.bytes(); }

  // Which places of each block hold an entry is kept until then only.
  void forget_occupied() { occupied_ = {}; }
  bsr_matrix download() const;

 private:
  // False, with nothing done, unless the columns of every row ascend.
  bool merge(const device_csr& matrix, const std::function<void(const sizes&)>& accept,
             const device_allocator& allocate);
  void allocate_blocks(std::int64_t num_blocks, const device_allocator& allocate);
  template <class Key>
  void convert(const device_csr& matrix, int column_bits, const std::function<void(const sizes&)>& accept,
               const device_allocator& allocate);

  std::int64_t num_rows_;
  std::int64_t num_cols_;
  value_type dtype_;
  block_shape block_;
  cudaStream_t stream_;
  device_array<std::int32_t> indptr_;
  device_array<std::int32_t> indices_;
  device_array<std::byte> data_;
  device_array<unsigned long long> occupied_;  // pooled memory
};

}  // namespace warploom::cuda
