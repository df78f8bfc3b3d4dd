// The row blocks of CSR-adaptive (row_blocks.hpp) in GPU memory, made there.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "device/device_csr.hpp"
#include "device/runtime.hpp"
#include "kernels/csr/row_blocks.hpp"

namespace warploom::cuda {

class device_row_blocks {
 public:
  // Synchronises the stream of the matrix once, to learn the sizes. `nnz_per_block` is at most 4096.
  device_row_blocks(const device_csr& matrix, int nnz_per_block, int threads_per_block,
                    const device_allocator& allocate);

  std::size_t num_blocks() const { return blocks_.size(); }
  std::size_t num_cut_rows() const { return cut_rows_.size(); }
  std::size_t num_partials() const { return num_partials_; }
  const int4* blocks() const { return blocks_.data(); }      // row_block
  const int4* cut_rows() const { return cut_rows_.data(); }  // cut_row_sums
  std::size_t bytes() const { return blocks_.bytes() + cut_rows_.bytes(); }

  row_blocks download() const;

 private:
  cudaStream_t stream_;
  device_array<int4> blocks_;
  device_array<int4> cut_rows_;
  std::size_t num_partials_ = 0;
};

}  // namespace warploom::cuda
