// Which blocks there can be, and why a matrix is not stored in them, on the host as on the GPU.
#pragma once

#include <cstdint>
#include <string>

#include "warploom/csr_view.hpp"
#include "warploom/formats/bsr.hpp"

namespace warploom {

// `repeats`: some row has two entries of one column. Empty: no reason. A product with column vectors is given a row of
// B for each vector, so that those of 16 rows may have twice as many places as those of 8.
std::string bsr_reason(value_type dtype, block_shape block, bool repeats, std::int64_t places, std::int64_t nnz);

// Throws error_kind::parameter unless the block size is 2, 4 or 8.
void check_block_size(int size);

}  // namespace warploom
