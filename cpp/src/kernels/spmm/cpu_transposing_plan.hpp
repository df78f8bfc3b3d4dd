// A row-major SpMM plan made to work on column-major B and C.
#pragma once

#include <memory>

#include "warploom/kernels/product.hpp"

namespace warploom {

// A plan of `matrix` for row-major operands as it is; for column-major ones between copies of B to row-major order and
// of C from it.
std::unique_ptr<product_plan> in_requested_order(std::unique_ptr<product_plan> row_major, const csr_view& matrix,
                                                 layout order);

}  // namespace warploom
