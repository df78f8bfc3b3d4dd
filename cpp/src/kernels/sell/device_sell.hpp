// SELL-C-sigma (warploom/formats/sell.hpp) in GPU memory, made there from CSR.
#pragma once

#include <cstdint>
#include <functional>

#include "kernels/sell/device_slices.hpp"
#include "warploom/formats/sell.hpp"

namespace warploom::cuda {

struct device_sell_options {
  std::int64_t slice_height = 32;
  std::int64_t sort_window = 1;
  bool shared_head = true;  // the columns that nearly all slices have come first (slices.hpp); else there is no head
};

class device_sell {
 public:
  // Throws as to_sell does, and what `check_places` throws when it is told the number of places of the format. The
  // matrix has 32-bit offsets.
  device_sell(const device_csr& matrix, const device_sell_options& options,
              const std::function<void(std::int64_t)>& check_places, const device_allocator& allocate);

  const device_slices& slices() const { return slices_; }
  // Gives the slices to the plan that they are for.
  device_slices take_slices() && { return std::move(slices_); }
  std::size_t bytes() const { return slices_.bytes(); }
  sell_matrix download() const;

 private:
  device_sell_options options_;
  std::int64_t num_cols_;
  std::int64_t nnz_;
  cudaStream_t stream_;
  device_slices slices_;
};

}  // namespace warploom::cuda
