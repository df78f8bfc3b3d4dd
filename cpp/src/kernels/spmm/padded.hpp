// Rows padded to one length on the CPU: row_split in row-major order, c_stationary in column-major order.
#pragma once

#include <memory>

#include "kernels/padded_csr/padded_csr.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

std::unique_ptr<product_plan> make_padded_plan(padded_csr matrix, layout order);

}  // namespace warploom
