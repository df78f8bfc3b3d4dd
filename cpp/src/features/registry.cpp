#include <array>
#include <string>

#include "features/sets.hpp"
#include "warploom/error.hpp"
#include "warploom/features.hpp"

namespace warploom {

std::span<const feature_set> feature_sets() {
  static const std::array sets = {spmm_features, spmv_features};
  return sets;
}

const feature_set& find_feature_set(std::string_view name) {
  std::string known;
  for (const feature_set& set : feature_sets()) {
    if (name == set.name) return set;
    known += (known.empty() ? "" : ", ") + std::string(set.name);
  }
  throw error(error_kind::parameter, "name", -1,
              "unknown feature set '" + std::string(name) + "'; the sets are: " + known);
}

}  // namespace warploom
