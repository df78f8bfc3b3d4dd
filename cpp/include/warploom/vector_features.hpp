// Features of column vectors: what neighbouring rows have in common, and whether tensor cores pay off.
#pragma once

#include <span>
#include <vector>

#include "warploom/csr_view.hpp"

namespace warploom {

// Names of the features (cpp/src/features/column_vectors.cpp says what they are).
std::span<const char* const> column_vector_feature_names();

// Their values, in that order; the same for any number of threads.
std::vector<double> column_vector_features(const csr_pattern& matrix);

}  // namespace warploom
