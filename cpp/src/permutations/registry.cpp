#include <string>

#include "permutations/algorithms.hpp"
#include "warploom/error.hpp"

namespace warploom {
namespace {

const permutation_algorithm algorithms[] = {
    {"none", "the caller's order", none_permutation},
};

}  // namespace

std::span<const permutation_algorithm> permutation_algorithms() { return algorithms; }

const permutation_algorithm& find_permutation(std::string_view name) {
  std::string known;
  for (const auto& algorithm : algorithms) {
    if (name == algorithm.name) return algorithm;
    known += known.empty() ? "" : ", ";
    known += algorithm.name;
  }
  throw error(error_kind::parameter, "permutation", -1,
              "unknown row permutation '" + std::string(name) + "'; known: " + known);
}

}  // namespace warploom
