// ELL (warploom/formats/ell.hpp) in GPU memory, made there from CSR: slices that are all as wide as the longest row, so
// that neighbouring threads read neighbouring places also where several share a row.
#pragma once

#include <cstdint>

#include "kernels/sell/device_slices.hpp"
#include "warploom/formats/ell.hpp"

namespace warploom::cuda {

class device_ell {
 public:
  // Slices of `height` rows with the first `width` entries of every row. The matrix has 32-bit offsets.
  device_ell(const device_csr& matrix, std::int64_t width, std::int64_t height, const device_allocator& allocate)
      : num_cols_(matrix.num_cols()),
        stream_(matrix.stream()),
        slices_(equal_slices(matrix, width, height, allocate)) {}

  const device_slices& slices() const { return slices_; }
  // Gives the slices to the plan that they are for.
  device_slices take_slices() && { return std::move(slices_); }
  std::size_t bytes() const { return slices_.bytes(); }
  ell_matrix download() const;

 private:
  std::int64_t num_cols_;
  cudaStream_t stream_;
  device_slices slices_;
};

}  // namespace warploom::cuda
