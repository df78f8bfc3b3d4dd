// Decision trees laid out to be walked fast.
//
// A node is 8 bytes (16 with float64 thresholds). The two children of a node are neighbours, so that a step is
// "displacement + (x > threshold)" without a branch; a leaf steps to itself, so that trees of different depths are
// walked in parallel and their cache misses overlap.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace warploom {

template <class Threshold>
struct tree_node {
  using bits = std::conditional_t<sizeof(Threshold) == 4, std::uint32_t, std::uint64_t>;

  static constexpr int feature_bits = 10;
  static constexpr std::int32_t max_inputs = 1 << feature_bits;
  static constexpr std::int32_t max_nodes =
      1 << (30 - feature_bits);  // of one tree; laid out, it may take up to twice as many places

  Threshold threshold;
  std::int32_t link;  // displacement to the left child in the upper bits, feature in the lower ones

  static tree_node inner(Threshold threshold, std::int32_t feature, std::int32_t displacement) {
    return {threshold, displacement * max_inputs + feature};
  }

  // The leaf's number in its tree is the payload of a NaN. No x is at most NaN: the step goes right, to the node
  // after the one before the leaf.
  static tree_node leaf(std::int32_t number) {
    const bits quiet = std::bit_cast<bits>(std::numeric_limits<Threshold>::quiet_NaN());
    return {std::bit_cast<Threshold>(quiet | static_cast<bits>(number)), -max_inputs};
  }

  bool is_leaf() const { return link < 0; }
  std::int32_t feature() const { return link & (max_inputs - 1); }
  const tree_node* left() const { return this + (link >> feature_bits); }  // the right child follows

  std::int32_t leaf_number() const {
    return static_cast<std::int32_t>(std::bit_cast<bits>(threshold) & static_cast<bits>(max_nodes - 1));
  }

  const tree_node* next(const Threshold* x) const {
    const std::int64_t wide = link;
    const bool right = !(x[wide & (max_inputs - 1)] <= threshold);
    return this + (wide >> feature_bits) + right;
  }
};

}  // namespace warploom
