// Column vectors as blocks, and products with them on the CPU, for plans that hold them among others.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "warploom/formats/bsr.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

// Throws error_kind::parameter unless there are vectors of so many rows.
block_shape vectors_of(int rows);

// Of values of float32, row-major. Row p of `vectors` produces row row_ids[p] of C (row p if `row_ids` is empty), and
// no other rows are written. In TF32 operands are rounded to it.
std::unique_ptr<product_plan> make_column_vectors_plan(bsr_matrix vectors, std::vector<std::int32_t> row_ids,
                                                       product_precision precision);

}  // namespace warploom
