// How the CMRS kernels store their matrix.
#pragma once

#include "warploom/formats/cmrs.hpp"
#include "warploom/kernels/product.hpp"

namespace warploom {

// Parameters that a kernel lacks take the only value it works with.
cmrs_options cmrs_options_of(const parameter_values& parameters);

}  // namespace warploom
