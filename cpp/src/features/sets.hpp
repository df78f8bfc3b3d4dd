// The feature sets that registry.cpp lists.
#pragma once

#include "warploom/features.hpp"

namespace warploom {

extern const feature_set spmm_features;
extern const feature_set spmv_features;

}  // namespace warploom
