// The tiles of merge-path SpMV (merge_tiles.hpp) in GPU memory, made there.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "device/device_csr.hpp"
#include "device/runtime.hpp"
#include "kernels/csr/merge_tiles.hpp"

namespace warploom::cuda {

class device_merge_tiles {
 public:
  // Synchronises the stream of the matrix once, to learn the sizes. `size` is at most 2048.
  device_merge_tiles(const device_csr& matrix, int size, const device_allocator& allocate);

  std::size_t num_tiles() const { return tiles_.size(); }
  bool cuts_rows() const { return cuts_.size() > 0; }
  const int4* tiles() const { return tiles_.data(); }  // merge_tile
  const int2* cuts() const { return cuts_.data(); }    // merge_cuts of every tile, or null if no row is cut
  std::size_t bytes() const { return tiles_.bytes() + cuts_.bytes(); }

  merge_tiles download() const;

 private:
  cudaStream_t stream_;
  device_array<int4> tiles_;
  device_array<int2> cuts_;
};

}  // namespace warploom::cuda
