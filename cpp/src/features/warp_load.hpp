// Load balance (Mehrabi et al. 2021, section II.C). A warp processes a row in ceil(row length / N_t) steps; its load
// is the number of steps for all its rows. Row i belongs to warp i mod N_w. Only indptr is read.
#pragma once

#include "features/summary.hpp"
#include "warploom/csr_view.hpp"
#include "warploom/geometry.hpp"

namespace warploom {

// Across all N_w warps: one without rows has load 0.
summary summarise_warp_load(const csr_pattern& matrix, const geometry& shape);

}  // namespace warploom
