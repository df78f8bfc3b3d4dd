// Ensembles of small trees, evaluated without walking: all nodes of 32 trees at a time are compared with the inputs,
// and a node that sends an input to the right rules out the leaves on its left. The leaf that is reached is the
// leftmost one that is left over (Lucchese et al., QuickScorer, 2015). Comparisons are in whole numbers: an input is
// replaced by how many of the thresholds that its feature has are below it, so that a node takes 5 bytes. What is read
// is read in order, which matters where the caches hold other data.
//
// The sums are those of a walk, bit for bit.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace warploom {

class tree_masks {
 public:
  static constexpr int max_inputs = 64;
  static constexpr int max_leaves = 16;

  // Feature -1 is a leaf, whose value is values[left]. Each tree adds to scores[of each tree]. Null if a tree has too
  // many leaves, there are too many inputs, or the processor lacks what makes this faster than walking.
  static std::unique_ptr<const tree_masks> make(
      std::int64_t num_inputs, const std::vector<std::int32_t>& first_nodes, const std::vector<std::int32_t>& feature,
      const std::vector<double>& threshold, const std::vector<std::int32_t>& left,
      const std::vector<std::int32_t>& right, const std::vector<double>& value, const std::vector<std::int32_t>& score);

  // Adds the values of the leaves that `x` reaches, to each score in the order of its trees. An input goes left where
  // it is at most the threshold.
  void add(const double* x, double* scores) const;

 private:
  static constexpr int lanes = 32;  // trees at a time

  // One node of each of them. A place without a node rules out nothing.
  struct node_row {
    std::array<std::uint16_t, lanes> rank;  // of the threshold among those of the feature
    std::array<std::uint16_t, lanes> kept;  // leaves, as bits, that are left over where the input is above it
    std::array<std::uint8_t, lanes> feature;
  };

  struct builder;

  void find_leaves(const std::uint16_t* ranks, std::uint8_t* leaves) const;

  std::vector<std::int32_t> first_threshold_;  // of each input, and the end
  std::vector<double> thresholds_;             // ascending
  std::vector<std::int32_t> first_row_;        // of each group of trees, and the end
  std::vector<node_row> rows_;
  std::vector<std::int32_t> score_;  // of each tree
  int leaves_per_tree_ = 0;
  std::vector<double> values_;  // [trees][leaves_per_tree_]
};

}  // namespace warploom
