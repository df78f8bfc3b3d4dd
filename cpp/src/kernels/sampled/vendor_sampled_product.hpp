// The vendor's sampled product, which sampled_product_cuda is compared with.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/sampled/sampled_product.hpp"

namespace warploom {

// Prepared for one pattern, whose arrays are to outlive it. One run at a time.
class vendor_sampled_product {
 public:
  virtual ~vendor_sampled_product() = default;
  // As sampled_product_cuda. The first run with another number of columns than the one before is preprocessed.
  virtual void run(const dense_view& X, const dense_view& Y, void* out, CUstream_st* stream) = 0;
};

// On the current device. Throws error_kind::device without the library, and error_kind::parameter for a value type that
// it does not know.
std::unique_ptr<vendor_sampled_product> prepare_vendor_sampled_product(const device_csr_arrays& pattern,
                                                                       std::int64_t nnz, value_type dtype);

}  // namespace warploom
