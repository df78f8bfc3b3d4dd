#include <array>

#include "predictor/kinds.hpp"
#include "warploom/error.hpp"

namespace warploom {

std::span<const model_kind> model_kinds() {
  static constexpr std::array kinds = {
      model_kind{"network", make_network},
      model_kind{"tree_ensemble", make_tree_ensemble},
  };
  return kinds;
}

std::unique_ptr<model> make_model(const model_source& source) {
  std::string known;
  for (const model_kind& kind : model_kinds()) {
    if (source.kind == kind.name) return kind.make(source);
    known += (known.empty() ? "" : ", ") + std::string(kind.name);
  }
  throw error(error_kind::profile, "kind", -1, "unknown kind of model '" + source.kind + "'; the kinds are: " + known);
}

}  // namespace warploom
