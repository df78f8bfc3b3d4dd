#include "predictor/tree_masks.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "kernels/cpu/instruction_sets.hpp"

#if WARPLOOM_HAS_X86_SETS
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 in its own header
#endif
#include <immintrin.h>
#endif

namespace warploom {

// Numbers the leaves of a tree from left to right.
struct tree_masks::builder {
  const std::vector<trees::node>& nodes;

  struct inner_node {
    std::int32_t feature;
    double threshold;
    std::uint16_t kept;
  };
  std::vector<inner_node> inner;  // of the tree that was visited last
  std::vector<double> leaves;

  // False if the tree has too many leaves.
  bool visit(std::size_t root) {
    inner.clear();
    leaves.clear();
    return visit_node(root, 0);
  }

 private:
  bool visit_node(std::size_t number, int depth) {
    const trees::node& node = nodes[number];
    if (node.feature == -1) {
      leaves.push_back(node.number);
      return leaves.size() <= max_leaves;
    }
    if (depth + 1 >= max_leaves) return false;
    const std::size_t begin = leaves.size();
    if (!visit_node(node.children, depth + 1)) return false;
    const std::size_t end = leaves.size();
    const unsigned ruled_out = (1u << end) - (1u << begin);
    inner.push_back({node.feature, node.number, static_cast<std::uint16_t>(~ruled_out)});
    return visit_node(node.children + 1, depth + 1);
  }
};

std::unique_ptr<const tree_masks> tree_masks::make(std::int64_t num_inputs, const trees& given,
                                                   const std::vector<std::int32_t>& scores) {
  if (best_instruction_set() != instruction_set::avx512 || num_inputs > max_inputs) return nullptr;
  constexpr std::uint16_t above_all = std::numeric_limits<std::uint16_t>::max();
  auto made = std::make_unique<tree_masks>();

  // Models that are trained on bins have at most as many thresholds for a feature.
  constexpr std::size_t max_thresholds = 4096;
  std::vector<std::vector<double>> of_feature(num_inputs);
  for (const trees::node& node : given.nodes_) {
    if (node.feature < 0) continue;
    std::vector<double>& known = of_feature[node.feature];
    const auto at = std::lower_bound(known.begin(), known.end(), node.number);
    if (at != known.end() && *at == node.number) continue;
    known.insert(at, node.number);
    if (known.size() > max_thresholds) return nullptr;
  }
  made->first_threshold_.push_back(0);
  for (const std::vector<double>& known : of_feature) {
    made->thresholds_.insert(made->thresholds_.end(), known.begin(), known.end());
    made->first_threshold_.push_back(static_cast<std::int32_t>(made->thresholds_.size()));
  }

  // The first tree of every score, then the second: a sum need not wait for the one before.
  const std::size_t num_trees = given.roots_.size();
  std::vector<std::int32_t> seen(num_trees == 0 ? 0 : *std::max_element(scores.begin(), scores.end()) + 1, 0);
  std::vector<std::int32_t> number(num_trees);
  for (std::size_t tree = 0; tree < num_trees; ++tree) number[tree] = seen[scores[tree]]++;
  std::vector<std::size_t> order(num_trees);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return number[a] < number[b]; });

  builder of_tree{given.nodes_, {}, {}};
  std::vector<double> leaves;
  leaves.reserve(num_trees * max_leaves);
  node_row nothing;
  nothing.rank.fill(above_all);
  nothing.kept.fill(above_all);
  nothing.feature.fill(0);
  for (std::size_t place = 0; place < num_trees; ++place) {
    const std::size_t tree = order[place];
    if (!of_tree.visit(given.roots_[tree])) return nullptr;
    const std::size_t lane = place % lanes;
    if (lane == 0) made->first_row_.push_back(static_cast<std::int32_t>(made->rows_.size()));
    const std::size_t first_row = made->first_row_.back();
    if (made->rows_.size() < first_row + of_tree.inner.size())
      made->rows_.resize(first_row + of_tree.inner.size(), nothing);
    for (std::size_t i = 0; i < of_tree.inner.size(); ++i) {
      const builder::inner_node& node = of_tree.inner[i];
      const std::vector<double>& known = of_feature[node.feature];
      const auto at = std::lower_bound(known.begin(), known.end(), node.threshold);
      node_row& row = made->rows_[first_row + i];
      row.rank[lane] = static_cast<std::uint16_t>(at - known.begin());
      row.kept[lane] = node.kept;
      row.feature[lane] = static_cast<std::uint8_t>(node.feature);
    }
    leaves.insert(leaves.end(), of_tree.leaves.begin(), of_tree.leaves.end());
    leaves.resize((place + 1) * max_leaves);
    made->score_.push_back(scores[tree]);
    made->leaves_per_tree_ = std::max(made->leaves_per_tree_, static_cast<int>(of_tree.leaves.size()));
  }
  made->first_row_.push_back(static_cast<std::int32_t>(made->rows_.size()));
  made->values_.reserve(num_trees * made->leaves_per_tree_);
  for (std::size_t place = 0; place < num_trees; ++place) {
    const auto first = leaves.begin() + static_cast<std::ptrdiff_t>(place * max_leaves);
    made->values_.insert(made->values_.end(), first, first + made->leaves_per_tree_);
  }
  return made;
}

// Each tree has a leaf that no node rules out.
WARPLOOM_FOR_AVX512 void tree_masks::find_leaves(const std::uint16_t* ranks, std::uint8_t* leaves) const {
#if WARPLOOM_HAS_X86_SETS
  const __m512i low = _mm512_loadu_si512(ranks);
  const __m512i high = _mm512_loadu_si512(ranks + lanes);
  const __m512i all = _mm512_set1_epi16(-1);
  const __m512i one = _mm512_set1_epi16(1);
  const __m512i ones = _mm512_set1_epi16(0x5555);
  const __m512i twos = _mm512_set1_epi16(0x3333);
  const __m512i fours = _mm512_set1_epi16(0x0f0f);
  const __m512i low_bits = _mm512_set1_epi16(0x1f);
  for (std::size_t group = 0; group + 1 < first_row_.size(); ++group, leaves += lanes) {
    __m512i left_over = all;
    for (std::int32_t r = first_row_[group]; r < first_row_[group + 1]; ++r) {
      const node_row& row = rows_[r];
      const __m512i feature =
          _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(row.feature.data())));
      const __m512i input = _mm512_permutex2var_epi16(low, feature, high);
      const __mmask32 above = _mm512_cmpgt_epu16_mask(input, _mm512_loadu_si512(row.rank.data()));
      left_over = _mm512_and_si512(left_over, _mm512_mask_loadu_epi16(all, above, row.kept.data()));
    }
    // How many zeros are below the lowest bit: sums of the bits of their mask, of 2, 4, 8 and 16 neighbours.
    const __m512i zeros = _mm512_andnot_si512(left_over, _mm512_sub_epi16(left_over, one));
    const __m512i of_2 = _mm512_sub_epi16(zeros, _mm512_and_si512(_mm512_srli_epi16(zeros, 1), ones));
    const __m512i of_4 =
        _mm512_add_epi16(_mm512_and_si512(of_2, twos), _mm512_and_si512(_mm512_srli_epi16(of_2, 2), twos));
    const __m512i of_8 = _mm512_and_si512(_mm512_add_epi16(of_4, _mm512_srli_epi16(of_4, 4)), fours);
    const __m512i leaf = _mm512_and_si512(_mm512_add_epi16(of_8, _mm512_srli_epi16(of_8, 8)), low_bits);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(leaves), _mm512_cvtepi16_epi8(leaf));
  }
#else
  static_cast<void>(ranks);
  static_cast<void>(leaves);
#endif
}

void tree_masks::add(const double* x, double* scores) const {
  std::array<std::uint16_t, max_inputs> ranks{};
  const std::size_t num_inputs = first_threshold_.size() - 1;
  for (std::size_t i = 0; i < num_inputs; ++i) {
    const double* const begin = thresholds_.data() + first_threshold_[i];
    const double* below = begin;  // without a branch, which would be guessed wrong half of the time
    for (auto count = static_cast<std::size_t>(first_threshold_[i + 1] - first_threshold_[i]); count > 0;) {
      const std::size_t half = (count + 1) / 2;
      below += below[half - 1] < x[i] ? half : 0;
      count -= half;
    }
    ranks[i] = static_cast<std::uint16_t>(below - begin);
  }
  constexpr std::size_t few = 4096;
  std::array<std::uint8_t, few> on_stack;
  std::vector<std::uint8_t> in_memory;
  std::uint8_t* leaves = on_stack.data();
  if (score_.size() > few) {
    in_memory.resize(score_.size() + lanes);
    leaves = in_memory.data();
  }
  find_leaves(ranks.data(), leaves);
  const double* values = values_.data();
  for (std::size_t tree = 0; tree < score_.size(); ++tree, values += leaves_per_tree_) {
    scores[score_[tree]] += values[leaves[tree]];
  }
}

}  // namespace warploom
