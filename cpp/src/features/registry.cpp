#include <string>

#include "warploom/error.hpp"
#include "warploom/features.hpp"

namespace warploom {

std::span<const feature_set> feature_sets() { return {}; }

const feature_set& find_feature_set(std::string_view name) {
  throw error(error_kind::parameter, "name", -1, "unknown feature set '" + std::string(name) + "'");
}

}  // namespace warploom
