// How many threads should share a row in CSR-vector: the two formulas that Gao et al. 2024 compare with (Sec. 2.1).
#pragma once

#include <cstdint>

namespace warploom {

// Equation (1), TpR_mean of CUSP: the mean row length nnz / m, rounded up to a power of two, at most 32.
// 1 for rows of at most one nonzero on average, no rows at all included; CSR-vector itself starts at 2.
int threads_per_row_mean(std::int64_t num_rows, std::int64_t nnz);

// Equation (2), TpR_SqMean of Reguly et al.: the same of the square root of the mean row length.
int threads_per_row_square_mean(std::int64_t num_rows, std::int64_t nnz);

}  // namespace warploom
