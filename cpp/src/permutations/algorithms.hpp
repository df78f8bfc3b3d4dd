// The row permutations, one per file of this folder.
#pragma once

#include "warploom/permutation.hpp"

namespace warploom {

row_permutation none_permutation(const csr_pattern& matrix, const geometry& shape);

}  // namespace warploom
