// What the description and the executors of the SELL and ELL kernels agree on.
#pragma once

#include <cstdint>
#include <string>

#include "warploom/kernels/product.hpp"

namespace warploom {

// A warp works on a slice, and threads_per_row of its threads on a row.
inline int sell_slice_height(const product_request& request) { return 32 / request.parameters.at("threads_per_row"); }

// Throws what to_sell throws.
void check_sell_options(std::int64_t slice_height, std::int64_t sort_window);

// Why the kernel does not take a matrix that would be stored in so many places, or "".
std::string sell_places_reason(std::int64_t places, std::int64_t nnz);

}  // namespace warploom
