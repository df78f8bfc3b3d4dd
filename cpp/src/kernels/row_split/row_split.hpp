// How row_split takes the columns of C on the CPU.
#pragma once

#include "kernels/description.hpp"
#include "kernels/spmm/rows_plan.hpp"

namespace warploom {

// Columns whose sums stay in registers: half of the 16 vector registers that every x86-64 and AArch64 processor has.
template <class Value>
constexpr int row_split_tile_width = 8 * 16 / sizeof(Value);

// Columns of a panel: wide enough to read whole cache lines of B, and several threads still share a giant row when k is
// large.
constexpr std::int64_t row_split_panel_width = 128;

prepare_cpu_function prepare_cpu_spmm_csr;

}  // namespace warploom
