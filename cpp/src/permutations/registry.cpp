#include <string>

#include "permutations/algorithms.hpp"
#include "permutations/device_community.hpp"
#include "permutations/device_load_orders.hpp"
#include "permutations/device_locality_orders.hpp"
#include "permutations/device_rcm.hpp"
#include "warploom/error.hpp"

namespace warploom {
namespace {

using enum permutation_family;

// name, summary, family, searches, symmetric, function, function on a GPU
const permutation_algorithm algorithms[] = {
    {"none", "the caller's order", none, false, true, none_permutation},
    {"plain", "rows by decreasing warp load", load, false, false, plain_permutation, plain_permutation_on_gpu},
    {"flipped", "as plain, with every second group of N_w rows reversed", load, false, false, flipped_permutation,
     flipped_permutation_on_gpu},
    {"lpt",
     "rows by decreasing warp load, each to the warp with the smallest load so far that still has a free position",
     load, false, false, lpt_permutation, lpt_permutation_on_gpu},
    {"warp-aware", "each row follows the one nearest in cache lines on its own warp", cache_lines, true, false,
     warp_aware_permutation},
    {"cta-aware", "each row follows the one nearest in cache lines on the neighbouring warp", cache_lines, true, false,
     cta_aware_permutation},
    {"hybrid-1", "as lpt; of the rows of equal load, the one nearest to the adjacent row", load_and_cache_lines, true,
     false, hybrid_1_permutation},
    {"hybrid-2.1", "as cta-aware; of equally near rows, the one of lowest warp load", load_and_cache_lines, true, false,
     hybrid_2_1_permutation},
    {"hybrid-2.2", "as cta-aware; of equally near rows, the one nearest to the row before it on its own warp",
     load_and_cache_lines, true, false, hybrid_2_2_permutation},
    {"hybrid-2.3", "as warp-aware; of equally near rows, the one of lowest warp load", load_and_cache_lines, true,
     false, hybrid_2_3_permutation},
    {"rcm", "reverse Cuthill-McKee: rows in the order of a breadth-first search, for a narrow band", locality, false,
     true, rcm_permutation, rcm_permutation_on_gpu},
    {"community", "rows that are densely connected to each other side by side, community by community", locality, false,
     true, community_permutation, community_permutation_on_gpu},
    {"minhash", "rows with similar sets of columns side by side, by their MinHash signatures", locality, false, false,
     minhash_permutation, minhash_permutation_on_gpu},
    {"degree", "rows in eight classes of decreasing degree, each in the caller's order", locality, false, true,
     degree_permutation, degree_permutation_on_gpu},
};

}  // namespace

const char* name_of(permutation_family family) {
  switch (family) {
    case none:
      return "none";
    case load:
      return "load";
    case cache_lines:
      return "cache lines";
    case load_and_cache_lines:
      return "load and cache lines";
    case locality:
      return "locality";
  }
  return "";
}

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
