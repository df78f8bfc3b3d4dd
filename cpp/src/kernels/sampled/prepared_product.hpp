// Sampled products that are prepared for one pattern.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "kernels/sampled/sampled_product.hpp"

namespace warploom {

class device_csr;

class prepared_sampled_product {
 public:
  virtual ~prepared_sampled_product() = default;
  // As sampled_product_cuda.
  virtual void run(const dense_view& X, const dense_view& Y, value_type dtype, void* out, CUstream_st* stream) = 0;
  // Whether products of this type are faster than sampled_product_cuda.
  virtual bool pays_for(value_type) const { return true; }
  // Bytes of GPU memory beside the pattern.
  virtual std::size_t bytes() const = 0;
};

// The vendor's, which sampled_product_cuda is compared with, for one value type and one run at a time. The first run
// with another number of columns than the one before is preprocessed. The arrays of the pattern are to outlive it. On
// the current device. Throws error_kind::device without the library, and error_kind::parameter for a value type that it
// does not know.
std::unique_ptr<prepared_sampled_product> prepare_vendor_sampled_product(const device_csr_arrays& pattern,
                                                                         std::int64_t nnz, value_type dtype);

// Column vectors, which read a row of Y once for 8 rows of the pattern. Products whose rows are not of whole 16 bytes
// are sampled_product_cuda's. Several runs at a time. The pattern is to outlive it. Synchronises its stream. Null if it
// does not pay for products of `dtype`; without that, error_kind::parameter says why it cannot be had.
std::unique_ptr<prepared_sampled_product> prepare_vector_sampled_product(const device_csr& pattern,
                                                                         std::optional<value_type> dtype);

}  // namespace warploom
