// Algorithm 1 of Mehrabi et al. 2021 on the CPU: column-major B and C, a tile of `tile_width` columns of C outermost,
// all rows inside, each row's part of the tile held in registers until it is finished.
#pragma once

#include "kernels/cpu/spmm/rows_plan.hpp"

namespace warploom {

void c_stationary(const shared_out_rows& rows, const parameter_values& parameters, const dense_view& B,
                  const dense_view& C);

}  // namespace warploom
