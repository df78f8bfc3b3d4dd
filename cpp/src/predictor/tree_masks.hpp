// Ensembles of small trees, evaluated without walking: all nodes of 32 trees at a time are compared with the inputs,
// and a node that sends an input to the right rules out the leaves on its left. The leaf that is reached is the
// leftmost one that is left over (Lucchese et al., QuickScorer, 2015). Comparisons are in whole numbers: an input is
// replaced by how many of the thresholds that its feature has are below it, so that a node takes 5 bytes. What is read
// is read in order, which matters where the caches hold other data.
//
// The sums are those of a walk, bit for bit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace warploom {

class tree_masks {
 public:
  static constexpr int max_inputs = 64;
  static constexpr int max_leaves = 16;

  // Trees one after the other; the two children of a node are neighbours.
  class trees {
   public:
    // Returns the number of the root. Nodes are what `set_leaf` and `set_inner` make of them.
    std::size_t add_tree() {
      roots_.push_back(nodes_.size());
      nodes_.emplace_back();
      return roots_.back();
    }
    void set_leaf(std::size_t node, double value) { nodes_[node] = {-1, value, 0}; }
    // Returns the number of the left child.
    std::size_t set_inner(std::size_t node, std::int32_t feature, double threshold) {
      const std::size_t children = nodes_.size();
      nodes_.resize(children + 2);
      nodes_[node] = {feature, threshold, children};
      return children;
    }

   private:
    friend class tree_masks;
    struct node {
      std::int32_t feature = -1;  // of a leaf
      double number = 0;          // threshold or value
      std::size_t children = 0;
    };
    std::vector<node> nodes_;
    std::vector<std::size_t> roots_;
  };

  // Tree t adds to scores[of_trees[t]]. Null if a tree has too many leaves, there are too many inputs or thresholds, or
  // the processor lacks what makes this faster than walking.
  static std::unique_ptr<const tree_masks> make(std::int64_t num_inputs, const trees& given,
                                                const std::vector<std::int32_t>& scores);

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
