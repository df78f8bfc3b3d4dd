// What the executors of compressed-sell share.
#pragma once

#include <cstdint>
#include <string>

#include "warploom/formats/compressed_sell.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

inline compressed_sell_options compressed_sell_options_of(const product_request& request) {
  return {request.parameters.at("rows_per_lane"), request.parameters.at("sort_window"), request.parameters.at("parts")};
}

// Throws what to_compressed_sell throws.
void check_compressed_sell(std::int64_t num_rows, const compressed_sell_options& options);

// Why the kernels do not take a matrix that would be stored in so many places, or "".
std::string compressed_sell_places_reason(std::int64_t places, std::int64_t nnz);

}  // namespace warploom
