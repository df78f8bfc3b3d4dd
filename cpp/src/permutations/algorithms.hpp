// The row permutations, one per file of this folder. Sections are those of Mehrabi et al. 2021; each file says what
// it decides where the paper leaves something open. The files of those for locality name their sources.
#pragma once

#include "warploom/permutation.hpp"

namespace warploom {

row_permutation none_permutation(const csr_pattern& matrix, const geometry& shape);

// Load balancing (Section III-A).
row_permutation plain_permutation(const csr_pattern& matrix, const geometry& shape);
row_permutation flipped_permutation(const csr_pattern& matrix, const geometry& shape);
row_permutation lpt_permutation(const csr_pattern& matrix, const geometry& shape);

// Cache-aware (Section III-B).
row_permutation warp_aware_permutation(const csr_pattern& matrix, const geometry& shape);
row_permutation cta_aware_permutation(const csr_pattern& matrix, const geometry& shape);

// Hybrid (Section III-C).
row_permutation hybrid_1_permutation(const csr_pattern& matrix, const geometry& shape);
row_permutation hybrid_2_1_permutation(const csr_pattern& matrix, const geometry& shape);
row_permutation hybrid_2_2_permutation(const csr_pattern& matrix, const geometry& shape);
row_permutation hybrid_2_3_permutation(const csr_pattern& matrix, const geometry& shape);

// Locality.
row_permutation rcm_permutation(const csr_pattern& matrix, const geometry& shape);
row_permutation community_permutation(const csr_pattern& matrix, const geometry& shape);
row_permutation minhash_permutation(const csr_pattern& matrix, const geometry& shape);
row_permutation degree_permutation(const csr_pattern& matrix, const geometry& shape);

}  // namespace warploom
