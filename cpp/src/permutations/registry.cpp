#include <string>

#include "permutations/algorithms.hpp"
#include "permutations/device_load_orders.hpp"
#include "warploom/error.hpp"

namespace warploom {
namespace {

const permutation_algorithm algorithms[] = {
    {"none", "the caller's order", false, none_permutation},
    {"plain", "rows by decreasing warp load", false, plain_permutation, plain_permutation_on_gpu},
    {"flipped", "as plain, with every second group of N_w rows reversed", false, flipped_permutation,
     flipped_permutation_on_gpu},
    {"lpt",
     "rows by decreasing warp load, each to the warp with the smallest load so far that still has a free position",
     false, lpt_permutation, lpt_permutation_on_gpu},
    {"warp-aware", "each row follows the one nearest in cache lines on its own warp", true, warp_aware_permutation},
    {"cta-aware", "each row follows the one nearest in cache lines on the neighbouring warp", true,
     cta_aware_permutation},
    {"hybrid-1", "as lpt; of the rows of equal load, the one nearest to the adjacent row", true, hybrid_1_permutation},
    {"hybrid-2.1", "as cta-aware; of equally near rows, the one of lowest warp load", true, hybrid_2_1_permutation},
    {"hybrid-2.2", "as cta-aware; of equally near rows, the one nearest to the row before it on its own warp", true,
     hybrid_2_2_permutation},
    {"hybrid-2.3", "as warp-aware; of equally near rows, the one of lowest warp load", true, hybrid_2_3_permutation},
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
