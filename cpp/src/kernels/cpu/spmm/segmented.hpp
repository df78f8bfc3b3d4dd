// row_split on rows cut into segments: also one giant row keeps every thread busy, whatever k.
#pragma once

#include <memory>

#include "warploom/formats/segmented_csr.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

std::unique_ptr<product_plan> make_segmented_plan(segmented_csr matrix);

}  // namespace warploom
