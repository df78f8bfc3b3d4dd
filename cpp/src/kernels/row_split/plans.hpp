// The plans of row_split on a GPU, each value type in a file of instances (wide_values.cu, half_values.cu).
#pragma once

#include <memory>

#include "device/device_csr.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom::cuda::row_split {

enum class stored_as { all_rows, nonempty_rows, padded_rows, segments };

// For row-major B and C. `Value` is a device type.
template <class Value>
std::unique_ptr<product_plan> make_plan(const device_csr& matrix, stored_as form, const product_request& request,
                                        const device_allocator& allocate);

}  // namespace warploom::cuda::row_split
