// The rows of a matrix in GPU memory, divided as hybrid-vectors stores them (hybrid_vectors.hpp).
#pragma once

#include <memory>

#include "device/device_csr.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom::cuda {

struct window_split {
  std::shared_ptr<const device_csr> windows;  // rows to be stored as vectors: borrowed memory
  std::shared_ptr<const device_csr> others;
  device_permutation vector_rows;  // the rows of the matrix that `windows` has
  device_permutation other_rows;   // and those of `others`
};

// Synchronises the stream of the matrix, to learn the sizes.
window_split split_windows(const device_csr& matrix, int nonzeros_per_vector, const device_allocator& allocate);

}  // namespace warploom::cuda
