// Which blocks there can be, and why a matrix is not stored in them, on the host as on the GPU.
#pragma once

#include <cstdint>
#include <string>

#include "warploom/csr_view.hpp"

namespace warploom {

// `repeats`: some row has two entries of one column. Empty: no reason.
std::string bsr_reason(value_type dtype, bool repeats, std::int64_t places, std::int64_t nnz);

// Throws error_kind::parameter unless the block size is 2, 4 or 8.
void check_block_size(int size);

}  // namespace warploom
