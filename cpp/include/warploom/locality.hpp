// Features of locality: what an order of rows could gain, and what the present one has, without ordering first.
#pragma once

#include <span>
#include <vector>

#include "warploom/csr_view.hpp"

namespace warploom {

// Names of the features (cpp/src/features/locality.cpp says what they are).
std::span<const char* const> locality_feature_names();

// Their values, in that order. They come from samples at fixed places and one pass over the column indices; the same
// for any number of threads.
std::vector<double> locality_features(const csr_pattern& matrix);

}  // namespace warploom
