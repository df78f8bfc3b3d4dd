// A dense matrix (kernels/dense/dense.hpp) in GPU memory, made there from CSR.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "device/device_csr.hpp"
#include "device/runtime.hpp"
#include "kernels/dense/dense.hpp"

namespace warploom::cuda {

class device_dense {
 public:
  // `accept` is told whether entries of one row and column repeat, which are added up, and may throw. Synchronises the
  // stream of the matrix once, to learn that. `rows_below` rows of zeros follow the matrix.
  device_dense(const device_csr& matrix, const std::function<void(bool)>& accept, const device_allocator& allocate,
               std::int64_t rows_below = 0);

  const dense_shape& shape() const { return shape_; }
  const void* values() const { return data_.data(); }
  value_array all_values() const { return {data_.data(), shape_.places()}; }
  std::size_t bytes() const { return data_.bytes(); }

  // Which places hold an entry is kept until then only.
  void forget_occupied() { occupied_ = {}; }
  dense_matrix download() const;

 private:
  dense_shape shape_;
  cudaStream_t stream_;
  device_array<std::byte> data_;
  device_array<std::uint32_t> occupied_;  // pooled memory
};

}  // namespace warploom::cuda
