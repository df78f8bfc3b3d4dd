// Single trees, forests and boosted trees. The scores are summed tree after tree, whatever the order of the walks.
#include <algorithm>
#include <array>
#include <cmath>

#include "predictor/huge_page_allocator.hpp"
#include "predictor/kinds.hpp"
#include "predictor/source_reader.hpp"
#include "predictor/tree_nodes.hpp"

namespace warploom {
namespace {

// How an input is compared with thresholds, see kinds.hpp. Under scikit_learn the input is a float32, and one float32
// is at most a float64 threshold if and only if it is at most the largest float32 that is not above the threshold.
struct scikit_learn {
  using threshold = float;

  static threshold round(double t) {
    const auto nearest = static_cast<float>(t);
    return static_cast<double>(nearest) > t ? std::nextafter(nearest, -std::numeric_limits<float>::infinity())
                                            : nearest;
  }

  static threshold input(double x) { return static_cast<float>(x); }
};

struct lightgbm {
  using threshold = double;

  static threshold round(double t) { return t; }

  // LightGBM stores a row sparsely, and what it takes for zero is not stored.
  static threshold input(double x) { return std::abs(x) > 1e-35f ? x : 0; }
};

// The arrays of a profile, see kinds.hpp.
struct tree_arrays {
  std::vector<std::int32_t> offset;
  std::vector<std::int32_t> feature;
  std::vector<double> threshold;
  std::vector<std::int32_t> left;
  std::vector<std::int32_t> right;
  std::vector<double> value;
  std::int64_t num_leaves;
  std::int64_t width;               // values of a leaf
  std::vector<std::int32_t> score;  // of each tree; empty if a leaf has a value for every score
  std::vector<double> base;

  std::int64_t num_trees() const { return static_cast<std::int64_t>(offset.size()) - 1; }
};

// Lays out one tree: checks its nodes, and appends them to `nodes` and its leaves' values to `values`.
template <class Comparison>
class tree_layout {
  using node = tree_node<typename Comparison::threshold>;

 public:
  tree_layout(const tree_arrays& arrays, std::int64_t tree, std::int64_t num_inputs)
      : arrays_(arrays),
        first_(arrays.offset[tree]),
        size_(arrays.offset[tree + 1] - first_),
        num_inputs_(num_inputs),
        reached_(size_, false) {
    if (size_ + 1 >= node::max_nodes) refuse("tree.offset", tree, "a tree has too many nodes");
  }

  // Returns the tree's depth, the steps from the root to the farthest leaf.
  std::int32_t append(std::vector<node, huge_page_allocator<node>>& nodes, std::vector<double>& values) {
    // The root is the second of a pair whose first is never reached: pairs stay together in memory, and a root that
    // is a leaf has a node before it.
    laid_out_.assign(2, node::leaf(0));
    reached_[0] = true;
    std::vector<pending> clusters{{0, 1, 0}};
    while (!clusters.empty()) {
      const pending start = clusters.back();
      clusters.pop_back();
      lay_out_cluster(start, clusters, values);
    }
    const auto missed = std::find(reached_.begin(), reached_.end(), false);
    if (missed != reached_.end()) {
      refuse("node.left", first_ + (missed - reached_.begin()), "no node leads to this one");
    }
    nodes.insert(nodes.end(), laid_out_.begin(), laid_out_.end());
    return depth_;
  }

 private:
  struct pending {
    std::int32_t from;  // node of the profile's tree
    std::int32_t to;    // where it is laid out
    std::int32_t depth;
  };

  // Pairs of children that one cache line holds.
  static constexpr int cluster_pairs = static_cast<int>(64 / (2 * sizeof(node)));

  // Lays out `start` and its nearest descendants, as many pairs of children as share a cache line, and leaves the
  // descendants below to further clusters.
  void lay_out_cluster(pending start, std::vector<pending>& clusters, std::vector<double>& values) {
    std::vector<pending> queue{start};
    int pairs = 0;
    for (std::size_t next = 0; next < queue.size(); ++next) {
      const auto [from, to, depth] = queue[next];
      depth_ = std::max(depth_, depth);
      const std::int64_t k = first_ + from;
      if (arrays_.feature[k] == -1) {
        laid_out_[to] = leaf(k, values);
      } else if (pairs < cluster_pairs) {
        ++pairs;
        const auto children = static_cast<std::int32_t>(laid_out_.size());
        laid_out_.resize(laid_out_.size() + 2);
        laid_out_[to] = inner(k, children - to);
        queue.push_back({arrays_.left[k], children, depth + 1});
        queue.push_back({arrays_.right[k], children + 1, depth + 1});
      } else {
        clusters.push_back({from, to, depth});
      }
    }
  }

  node inner(std::int64_t k, std::int32_t displacement) {
    if (arrays_.feature[k] < 0 || arrays_.feature[k] >= num_inputs_) {
      refuse("node.feature", k, "a feature is none of the " + std::to_string(num_inputs_) + " inputs, nor -1");
    }
    if (!std::isfinite(arrays_.threshold[k])) refuse("node.threshold", k, "a threshold is not finite");
    for (const auto& [name, child] : {std::pair{"node.left", arrays_.left[k]}, {"node.right", arrays_.right[k]}}) {
      if (child < 0 || child >= size_) refuse(name, k, "a child is outside its tree");
      if (reached_[child]) refuse(name, k, "a child is the child of another node too, or the root");
      reached_[child] = true;
    }
    return node::inner(Comparison::round(arrays_.threshold[k]), arrays_.feature[k], displacement);
  }

  node leaf(std::int64_t k, std::vector<double>& values) {
    const std::int32_t row = arrays_.left[k];
    if (row < 0 || row >= arrays_.num_leaves) refuse("node.left", k, "a leaf's row of leaf.value does not exist");
    const double* first = arrays_.value.data() + row * arrays_.width;
    values.insert(values.end(), first, first + arrays_.width);
    return node::leaf(num_leaves_++);
  }

  const tree_arrays& arrays_;
  std::int64_t first_;
  std::int64_t size_;
  std::int64_t num_inputs_;
  std::int32_t num_leaves_ = 0;
  std::int32_t depth_ = 0;
  std::vector<bool> reached_;
  std::vector<node> laid_out_;
};

template <class Comparison>
class tree_ensemble final : public model {
  using threshold = typename Comparison::threshold;
  using node = tree_node<threshold>;

 public:
  tree_ensemble(std::int64_t num_inputs, const tree_arrays& arrays, bool is_mean, output_transform output)
      : model(num_inputs, static_cast<std::int64_t>(arrays.base.size()), is_mean ? members(arrays) : 1, output),
        is_mean_(is_mean),
        width_(arrays.width),
        score_(arrays.score),
        base_(arrays.base) {
    for (std::int64_t tree = 0; tree < arrays.num_trees(); ++tree) {
      const auto root = static_cast<std::int64_t>(nodes_.size()) + 1;
      const auto first_value = static_cast<std::int64_t>(values_.size());
      const std::int32_t depth = tree_layout<Comparison>(arrays, tree, num_inputs).append(nodes_, values_);
      trees_.push_back({root, first_value, static_cast<std::int32_t>(tree), depth});
    }
    std::stable_sort(trees_.begin(), trees_.end(), [](const tree& a, const tree& b) { return a.depth < b.depth; });
    nodes_.shrink_to_fit();
    values_.shrink_to_fit();
    trees_of_score_.assign(base_.size(), score_.empty() ? static_cast<double>(trees_.size()) : 0.0);
    for (const std::int32_t score : score_) trees_of_score_[score] += 1;
  }

 private:
  struct tree {
    std::int64_t root;         // in nodes_
    std::int64_t first_value;  // in values_
    std::int32_t number;       // in the order of the sum
    std::int32_t depth;
  };

  // Trees that the least served score is the mean of.
  static std::int64_t members(const tree_arrays& arrays) {
    if (arrays.score.empty()) return arrays.num_trees();
    std::vector<std::int64_t> trees(arrays.base.size());
    for (const std::int32_t score : arrays.score) ++trees[score];
    return *std::min_element(trees.begin(), trees.end());
  }

  void evaluate(const double* inputs, std::int64_t rows, double* scores, double* spread,
                std::int64_t stride) const override {
    std::vector<threshold> x(num_inputs());
    std::vector<const double*> leaves(trees_.size());
    for (std::int64_t r = 0; r < rows; ++r, inputs += num_inputs(), scores += stride) {
      std::transform(inputs, inputs + num_inputs(), x.begin(), Comparison::input);
      find_leaves(x.data(), leaves.data());
      add_up(leaves, scores);
      if (spread) spread_around(scores, leaves, spread + r * stride);
    }
  }

  void find_leaves(const threshold* x, const double** leaves) const {
    constexpr std::size_t side_by_side = 16;  // about as many cache misses as a core has under way at a time
    std::size_t first = 0;
    for (; first + side_by_side <= trees_.size(); first += side_by_side) walk<side_by_side>(first, x, leaves);
    for (; first < trees_.size(); ++first) walk<1>(first, x, leaves);
  }

  // Walks the trees from `first` on, `count` of them side by side, and prefetches the values of the leaves.
  template <std::size_t count>
  void walk(std::size_t first, const threshold* x, const double** leaves) const {
    std::array<const node*, count> at;
    for (std::size_t i = 0; i < count; ++i) at[i] = nodes_.data() + trees_[first + i].root;
    const auto step = [&] {
      for (std::size_t i = 0; i < count; ++i) at[i] = at[i]->next(x);
    };
    // Few inputs go down to the farthest leaf of an unbalanced tree: look now and then whether all have arrived.
    constexpr std::int32_t steps_between = 3;
    std::int32_t left = trees_[first + count - 1].depth;  // of the deepest
    for (; left > 2 * steps_between; left -= steps_between + 1) {
      for (int i = 0; i < steps_between; ++i) step();
      const std::array<const node*, count> before = at;
      step();
      if (at == before) left = 0;
    }
    for (; left > 0; --left) step();
    for (std::size_t i = 0; i < count; ++i) {
      const tree& walked = trees_[first + i];
      const double* const leaf = values_.data() + walked.first_value + at[i]->leaf_number() * width_;
      __builtin_prefetch(leaf);
      leaves[walked.number] = leaf;
    }
  }

  void add_up(const std::vector<const double*>& leaves, double* scores) const {
    const auto num_scores = static_cast<std::int64_t>(base_.size());
    std::copy(base_.begin(), base_.end(), scores);
    if (!score_.empty()) {
      for (std::size_t tree = 0; tree < leaves.size(); ++tree) scores[score_[tree]] += *leaves[tree];
    } else {
      for (const double* leaf : leaves) {
        for (std::int64_t o = 0; o < num_scores; ++o) scores[o] += leaf[o];
      }
    }
    if (!is_mean_) return;
    for (std::int64_t o = 0; o < num_scores; ++o) scores[o] /= trees_of_score_[o];
  }

  void spread_around(const double* mean, const std::vector<const double*>& leaves, double* spread) const {
    const auto num_scores = static_cast<std::int64_t>(base_.size());
    std::fill_n(spread, num_scores, 0.0);
    for (std::size_t tree = 0; tree < leaves.size(); ++tree) {
      const std::int64_t first = score_.empty() ? 0 : score_[tree];
      for (std::int64_t o = 0; o < width_; ++o) {
        const double difference = leaves[tree][o] - mean[first + o];
        spread[first + o] += difference * difference;
      }
    }
    for (std::int64_t o = 0; o < num_scores; ++o) spread[o] = std::sqrt(spread[o] / trees_of_score_[o]);
  }

  bool is_mean_;
  std::int64_t width_;
  std::vector<node, huge_page_allocator<node>> nodes_;
  std::vector<double> values_;  // of the leaves, tree after tree
  std::vector<tree> trees_;     // the shallow ones first: those that are walked together are of about one depth
  std::vector<std::int32_t> score_;
  std::vector<double> base_;
  std::vector<double> trees_of_score_;
};

void check_offsets(const std::vector<std::int32_t>& offset, std::int64_t num_nodes) {
  if (offset.front() != 0) refuse("tree.offset", 0, "the first offset is not 0");
  for (std::size_t t = 1; t < offset.size(); ++t) {
    if (offset[t] <= offset[t - 1]) refuse("tree.offset", static_cast<std::int64_t>(t), "a tree has no nodes");
  }
  if (offset.back() != num_nodes) {
    refuse("tree.offset", static_cast<std::int64_t>(offset.size()) - 1,
           "the last offset is not the number of nodes, " + std::to_string(num_nodes));
  }
}

void check_scores(const tree_arrays& arrays) {
  const auto num_scores = static_cast<std::int64_t>(arrays.base.size());
  if (arrays.score.empty()) {
    if (arrays.width != num_scores) {
      refuse("leaf.value", -1,
             "a leaf has " + std::to_string(arrays.width) + " values for " + std::to_string(num_scores) + " scores");
    }
    return;
  }
  if (arrays.width != 1) refuse("leaf.value", -1, "leaves of trees with a score of their own have one value");
  std::vector<bool> served(num_scores, false);
  for (std::size_t t = 0; t < arrays.score.size(); ++t) {
    const std::int32_t score = arrays.score[t];
    if (score < 0 || score >= num_scores) refuse("tree.score", static_cast<std::int64_t>(t), "no such score");
    served[score] = true;
  }
  const auto unserved = std::find(served.begin(), served.end(), false);
  if (unserved != served.end()) {
    refuse("tree.score", -1, "no tree adds to score " + std::to_string(unserved - served.begin()));
  }
}

tree_arrays read_arrays(source_reader& source) {
  tree_arrays arrays;
  arrays.offset = source.int32s("tree.offset", source.shape("tree.offset", 1));
  if (arrays.offset.size() < 2) refuse("tree.offset", -1, "there is no tree");
  const std::vector<std::int64_t> nodes = source.shape("node.feature", 1);
  check_offsets(arrays.offset, nodes[0]);
  arrays.feature = source.int32s("node.feature", nodes);
  arrays.threshold = source.thresholds("node.threshold", nodes);
  arrays.left = source.int32s("node.left", nodes);
  arrays.right = source.int32s("node.right", nodes);
  const std::vector<std::int64_t> leaves = source.shape("leaf.value", 2);
  arrays.num_leaves = leaves[0];
  arrays.width = leaves[1];
  arrays.value = source.doubles("leaf.value", leaves);
  arrays.base = source.doubles("base", source.shape("base", 1));
  if (source.has("tree.score")) arrays.score = source.int32s("tree.score", {arrays.num_trees()});
  check_scores(arrays);
  return arrays;
}

}  // namespace

std::unique_ptr<model> make_tree_ensemble(const model_source& from) {
  source_reader source(from);
  const bool is_lightgbm = source.choice("comparison", {"scikit-learn", "lightgbm"}) == 1;
  const bool is_mean = source.choice("combine", {"sum", "mean"}) == 1;
  const output_transform output = source.output();
  if (from.num_inputs > tree_node<float>::max_inputs) refuse("inputs", -1, "trees take at most 1024 inputs");
  const tree_arrays arrays = read_arrays(source);
  source.finish();
  if (is_mean && std::any_of(arrays.base.begin(), arrays.base.end(), [](double base) { return base != 0; })) {
    refuse("base", -1, "a mean starts from 0");
  }
  if (is_lightgbm) {
    return std::make_unique<tree_ensemble<lightgbm>>(from.num_inputs, arrays, is_mean, output);
  }
  return std::make_unique<tree_ensemble<scikit_learn>>(from.num_inputs, arrays, is_mean, output);
}

}  // namespace warploom
