// What the predictor knows of a matrix.
//
// A feature set is a registered list of names and one function that fills their values in that order.
#pragma once

#include <span>
#include <string_view>

#include "warploom/csr_view.hpp"
#include "warploom/geometry.hpp"

namespace warploom {

struct feature_set {
  const char* name;                    // "spmm", "spmv"
  std::span<const char* const> names;  // in the order of the values
  void (*compute)(const csr_pattern&, const geometry&, double* values);
};

// The registry (cpp/src/features/registry.cpp).
std::span<const feature_set> feature_sets();

// The set of that name; throws error_kind::parameter with the known names.
const feature_set& find_feature_set(std::string_view name);

}  // namespace warploom
