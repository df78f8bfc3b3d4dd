// What the description and the executors of the SELL and ELL kernels agree on.
#pragma once

#include "warploom/kernels/product.hpp"

namespace warploom {

// A warp works on a slice, and threads_per_row of its threads on a row.
inline int sell_slice_height(const product_request& request) { return 32 / request.parameters.at("threads_per_row"); }

}  // namespace warploom
