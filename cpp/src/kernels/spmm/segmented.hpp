// row_split on rows cut into segments: even one giant row keeps every thread busy, whatever k is.
#pragma once

#include <memory>

#include "kernels/segmented_csr/segmented_csr.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

std::unique_ptr<product_plan> make_segmented_plan(segmented_csr matrix);

// The same from CSR; column-major B and C are transposed.
std::unique_ptr<product_plan> make_segmented_plan_in_requested_order(const csr_view& matrix,
                                                                     const product_request& request);

}  // namespace warploom
