// A sparsity pattern as a picture: nonzeros counted in the cells of a grid.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "warploom/csr_view.hpp"

namespace warploom {

// The nonzeros in each of height x width cells, row by row. Row p of the picture's matrix is row perm[p] of `matrix`,
// or row p if `perm` is empty; it is to be a permutation of the rows, see validate_permutation. At most as many cells
// as rows and columns: throws error_kind::parameter otherwise. The result does not depend on the number of threads.
std::vector<std::int64_t> count_in_cells(const csr_pattern& matrix, std::span<const std::int32_t> perm,
                                         std::int64_t height, std::int64_t width);

}  // namespace warploom
