// row_split over rows padded to one length, on the CPU.
#pragma once

#include <memory>

#include "warploom/formats/padded_csr.hpp"
#include "warploom/kernels/spmm.hpp"

namespace warploom {

std::unique_ptr<spmm_plan> make_padded_plan(padded_csr matrix);

}  // namespace warploom
