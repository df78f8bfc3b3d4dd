// Features of locality: what an order of rows could gain, and what the present one has, without ordering first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "warploom/csr_view.hpp"

namespace warploom {

// Names of the features (cpp/src/features/locality.cpp says what they are).
std::span<const char* const> locality_feature_names();

// Their values, in that order. They come from samples at fixed places and passes over the column indices; the same for
// any number of threads.
std::vector<double> locality_features(const csr_pattern& matrix);

// The one of them that models take, `hidden_overlap`.
std::span<const char* const> overlap_feature_names();

inline constexpr double not_measured = -1;
// Below, products are so short that computing it takes longer than it may save.
inline constexpr std::int64_t fewest_nonzeros_of_overlap = 1'000'000;

// `not_measured` for matrices of fewer nonzeros, and of none.
double hidden_overlap(const csr_pattern& matrix, std::int64_t fewest_nonzeros = fewest_nonzeros_of_overlap);

}  // namespace warploom
