// How the nonzeros are distributed over the rows. Only indptr is read. Duplicates and stored zeros count.
#pragma once

#include "features/sets.hpp"
#include "features/summary.hpp"
#include "warploom/csr_view.hpp"

namespace warploom {

summary summarise_row_lengths(const csr_pattern& matrix);

// Population variance, the mean squared deviation from nnz / rows; 0 without rows.
double row_length_variance(const csr_pattern& matrix);

// nnz / (rows * columns); 0 for a matrix without rows or columns.
double density(const matrix_size& size);

}  // namespace warploom
