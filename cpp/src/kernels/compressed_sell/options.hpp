// What the executors of compressed-sell share.
#pragma once

#include "warploom/formats/compressed_sell.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

inline compressed_sell_options compressed_sell_options_of(const product_request& request) {
  return {request.parameters.at("rows_per_lane"), request.parameters.at("sort_window"), request.parameters.at("parts")};
}

}  // namespace warploom
