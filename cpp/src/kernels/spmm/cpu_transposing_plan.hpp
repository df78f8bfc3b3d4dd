// A row-major SpMM plan made to work on column-major B and C.
#pragma once

#include <memory>

#include "warploom/kernels/product.hpp"

namespace warploom {

// Copies B to row-major order, runs `inner`, and copies the result back to column-major order.
std::unique_ptr<product_plan> make_cpu_transposing_plan(std::unique_ptr<product_plan> inner, value_type dtype);

// A row-major plan as it is, or transposing B and C around it in column-major order.
std::unique_ptr<product_plan> in_requested_order(std::unique_ptr<product_plan> row_major, value_type dtype,
                                                 layout order);

}  // namespace warploom
