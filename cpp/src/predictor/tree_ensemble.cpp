// Single trees, forests and boosted trees. The scores are summed tree after tree, whatever the order of the walks.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <mutex>
#include <numeric>

#include "huge_page_allocator.hpp"
#include "predictor/kinds.hpp"
#include "predictor/source_reader.hpp"
#include "predictor/tree_masks.hpp"
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

  // LightGBM stores rows sparsely and does not store what it takes for zero.
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

// Refuses nodes that do not form trees, whose features, thresholds or leaves do not exist, or leaves that share a row
// of values (a small file could otherwise ask for any amount of memory).
class tree_checker {
 public:
  tree_checker(const tree_arrays& arrays, std::int64_t num_inputs)
      : arrays_(arrays),
        num_inputs_(num_inputs),
        reached_(arrays.feature.size(), false),
        row_taken_(arrays.num_leaves, false) {}

  void check(std::int64_t tree) {
    const std::int64_t first = arrays_.offset[tree];
    const std::int64_t size = arrays_.offset[tree + 1] - first;
    if (size >= tree_node<float>::max_nodes) refuse("tree.offset", tree, "a tree has too many nodes");
    reached_[first] = true;
    std::vector<std::int64_t> pending{first};
    while (!pending.empty()) {
      const std::int64_t k = pending.back();
      pending.pop_back();
      if (arrays_.feature[k] == -1) {
        check_leaf(k);
      } else {
        check_inner(k);
        pending.push_back(reach("node.left", k, arrays_.left[k], first, size));
        pending.push_back(reach("node.right", k, arrays_.right[k], first, size));
      }
    }
    const auto begin = reached_.begin() + first;
    const auto missed = std::find(begin, begin + size, false);
    if (missed != begin + size) refuse("node.left", first + (missed - begin), "no node leads to this one");
  }

 private:
  void check_inner(std::int64_t k) const {
    if (arrays_.feature[k] < 0 || arrays_.feature[k] >= num_inputs_) {
      refuse("node.feature", k, "a feature is neither one of the " + std::to_string(num_inputs_) + " inputs nor -1");
    }
    if (!std::isfinite(arrays_.threshold[k])) refuse("node.threshold", k, "a threshold is not finite");
  }

  void check_leaf(std::int64_t k) {
    const std::int32_t row = arrays_.left[k];
    if (row < 0 || row >= arrays_.num_leaves) refuse("node.left", k, "a leaf's row of leaf.value does not exist");
    if (row_taken_[row]) refuse("node.left", k, "a leaf's row of leaf.value is another leaf's too");
    row_taken_[row] = true;
  }

  std::int64_t reach(const char* name, std::int64_t k, std::int32_t child, std::int64_t first, std::int64_t size) {
    if (child < 0 || child >= size) refuse(name, k, "a child is outside its tree");
    if (reached_[first + child]) refuse(name, k, "a child is the child of another node too, or the root");
    reached_[first + child] = true;
    return first + child;
  }

  const tree_arrays& arrays_;
  std::int64_t num_inputs_;
  std::vector<bool> reached_;
  std::vector<bool> row_taken_;
};

// Lays out one tree that has been checked.
template <class Comparison>
class tree_layout {
  using node = tree_node<typename Comparison::threshold>;

 public:
  tree_layout(const tree_arrays& arrays, std::int64_t tree) : arrays_(arrays), first_(arrays.offset[tree]) {}

  // Appends the nodes and the leaves' values, and returns the tree's depth, the steps from root to farthest leaf.
  //
  // A step costs most when it needs another cache line: a line holds a node's children and some of the descendants
  // below them. Subtrees that fill a line come first, so that each of them starts one, small ones follow.
  std::int32_t append(huge_vector<node>& nodes, huge_vector<double>& values) {
    // The root is the second of a pair whose first is never reached: pairs stay together in memory, and a root that
    // is a leaf has a node before it.
    laid_out_.assign(2, node::leaf(0));
    std::vector<pending> large{{0, 1, 0}};
    std::vector<pending> small;
    lay_out(take(large), line_pairs - 1, large, small, values);
    while (!large.empty()) lay_out(take(large), line_pairs, large, small, values);
    while (!small.empty()) lay_out(take(small), line_pairs, small, small, values);
    laid_out_.resize((laid_out_.size() + line_nodes - 1) / line_nodes * line_nodes, node::leaf(0));
    nodes.insert(nodes.end(), laid_out_.begin(), laid_out_.end());
    return depth_;
  }

  static constexpr int line_nodes = static_cast<int>(64 / sizeof(node));
  static constexpr int line_pairs = line_nodes / 2;

 private:
  struct pending {
    std::int32_t from;  // node of the profile's tree
    std::int32_t to;    // where it is laid out
    std::int32_t depth;
  };

  static pending take(std::vector<pending>& stack) {
    const pending last = stack.back();
    stack.pop_back();
    return last;
  }

  bool is_leaf(std::int32_t from) const { return arrays_.feature[first_ + from] == -1; }

  // Whether the pairs of children of the node and its descendants fill a cache line.
  bool fills_line(std::int32_t from) const {
    std::vector<std::int32_t> inner{from};
    for (std::size_t next = 0; next < inner.size() && inner.size() < line_pairs; ++next) {
      const std::int64_t k = first_ + inner[next];
      for (const std::int32_t child : {arrays_.left[k], arrays_.right[k]}) {
        if (!is_leaf(child)) inner.push_back(child);
      }
    }
    return inner.size() >= line_pairs;
  }

  // Lays out `start` and its nearest descendants, up to this many pairs of children; those below are laid out later.
  void lay_out(pending start, int pairs, std::vector<pending>& large, std::vector<pending>& small,
               huge_vector<double>& values) {
    std::vector<pending> queue{start};
    for (std::size_t next = 0; next < queue.size(); ++next) {
      const auto [from, to, depth] = queue[next];
      depth_ = std::max(depth_, depth);
      const std::int64_t k = first_ + from;
      if (is_leaf(from)) {
        laid_out_[to] = leaf(k, values);
      } else if (pairs > 0) {
        --pairs;
        const auto children = static_cast<std::int32_t>(laid_out_.size());
        laid_out_.resize(laid_out_.size() + 2);
        laid_out_[to] = node::inner(Comparison::round(arrays_.threshold[k]), arrays_.feature[k], children - to);
        queue.push_back({arrays_.left[k], children, depth + 1});
        queue.push_back({arrays_.right[k], children + 1, depth + 1});
      } else {
        (fills_line(from) ? large : small).push_back({from, to, depth});
      }
    }
  }

  node leaf(std::int64_t k, huge_vector<double>& values) {
    const double* const first = arrays_.value.data() + arrays_.left[k] * arrays_.width;
    values.insert(values.end(), first, first + arrays_.width);
    return node::leaf(num_leaves_++);
  }

  const tree_arrays& arrays_;
  std::int64_t first_;
  std::int32_t num_leaves_ = 0;
  std::int32_t depth_ = 0;
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
    tree_checker checker(arrays, num_inputs);
    for (std::int64_t tree = 0; tree < arrays.num_trees(); ++tree) checker.check(tree);
    using layout = tree_layout<Comparison>;
    nodes_.reserve(arrays.feature.size() + arrays.num_trees() * (layout::line_nodes + 1));
    values_.reserve(arrays.value.size());
    for (std::int64_t tree = 0; tree < arrays.num_trees(); ++tree) {
      const auto root = static_cast<std::int64_t>(nodes_.size()) + 1;
      const auto first_value = static_cast<std::int64_t>(values_.size());
      const std::int32_t depth = layout(arrays, tree).append(nodes_, values_);
      trees_.push_back({root, first_value, static_cast<std::int32_t>(tree), depth});
    }
    std::stable_sort(trees_.begin(), trees_.end(), [](const tree& a, const tree& b) { return a.depth < b.depth; });
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

  // Minimum over the scores of the number of trees that a score is the mean of.
  static std::int64_t members(const tree_arrays& arrays) {
    if (arrays.score.empty()) return arrays.num_trees();
    std::vector<std::int64_t> trees(arrays.base.size());
    for (const std::int32_t score : arrays.score) ++trees[score];
    return *std::min_element(trees.begin(), trees.end());
  }

  void evaluate(const double* inputs, std::int64_t rows, double* scores, double* spread,
                std::int64_t stride) const override {
    if (const tree_masks* const masks = rows == 1 && !spread ? find_masks() : nullptr) {
      return evaluate_by_masks(*masks, inputs, scores);
    }
    std::vector<threshold> x(num_inputs());
    std::vector<const double*> leaves(trees_.size());
    for (std::int64_t r = 0; r < rows; ++r, inputs += num_inputs(), scores += stride) {
      std::transform(inputs, inputs + num_inputs(), x.begin(), Comparison::input);
      find_leaves(x.data(), leaves.data());
      sum_members(leaves, scores);
      if (spread) standard_deviation_around(scores, leaves, spread + r * stride);
    }
  }

  void evaluate_by_masks(const tree_masks& masks, const double* inputs, double* scores) const {
    std::array<double, tree_masks::max_inputs> x{};
    std::transform(inputs, inputs + num_inputs(), x.begin(), Comparison::input);
    std::copy(base_.begin(), base_.end(), scores);
    masks.add(x.data(), scores);
    divide_by_trees(scores);
  }

  // Made when a single row is asked for, as a plan does: most models of a profile are not asked in a process.
  const tree_masks* find_masks() const {
    if (score_.empty()) return nullptr;
    std::call_once(masks_made_, [&] { masks_ = make_masks(); });
    return masks_.get();
  }

  std::unique_ptr<const tree_masks> make_masks() const {
    std::vector<const tree*> by_number(trees_.size());
    for (const tree& one : trees_) by_number[one.number] = &one;
    tree_masks::trees flat;
    struct pending {
      const node* from;
      std::size_t to;
    };
    std::vector<pending> stack;
    for (const tree* const one : by_number) {
      stack.push_back({nodes_.data() + one->root, flat.add_tree()});
      while (!stack.empty()) {
        const auto [from, to] = stack.back();
        stack.pop_back();
        if (from->is_leaf()) {
          flat.set_leaf(to, values_[one->first_value + from->leaf_number()]);
        } else {
          const std::size_t children = flat.set_inner(to, from->feature(), static_cast<double>(from->threshold));
          stack.push_back({from->left(), children});
          stack.push_back({from->left() + 1, children + 1});
        }
      }
    }
    return tree_masks::make(num_inputs(), flat, score_);
  }

  void find_leaves(const threshold* x, const double** leaves) const {
    constexpr std::size_t side_by_side = 16;  // about as many cache misses as a core has in flight at a time
    std::size_t first = 0;
    for (; first + side_by_side <= trees_.size(); first += side_by_side) walk<side_by_side>(first, x, leaves);
    for (; first < trees_.size(); ++first) walk<1>(first, x, leaves);
  }

  // Walks the trees from `first` on, `count` of them in parallel, and prefetches the values of the leaves.
  template <std::size_t count>
  void walk(std::size_t first, const threshold* x, const double** leaves) const {
    std::array<const node*, count> at;
    for (std::size_t i = 0; i < count; ++i) at[i] = nodes_.data() + trees_[first + i].root;
    const auto step = [&] {
      for (std::size_t i = 0; i < count; ++i) at[i] = at[i]->next(x);
    };
    // Few inputs reach the deepest leaf of an unbalanced tree: check now and then whether all have reached a leaf.
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

  void sum_members(const std::vector<const double*>& leaves, double* scores) const {
    const auto num_scores = static_cast<std::int64_t>(base_.size());
    std::copy(base_.begin(), base_.end(), scores);
    if (num_scores == 1) {  // in a register: each sum waits for the one before
      scores[0] = std::accumulate(leaves.begin(), leaves.end(), base_[0],
                                  [](double sum, const double* leaf) { return sum + *leaf; });
    } else if (!score_.empty()) {
      for (std::size_t tree = 0; tree < leaves.size(); ++tree) scores[score_[tree]] += *leaves[tree];
    } else {
      for (const double* leaf : leaves) {
        for (std::int64_t o = 0; o < num_scores; ++o) scores[o] += leaf[o];
      }
    }
    divide_by_trees(scores);
  }

  void divide_by_trees(double* scores) const {
    if (!is_mean_) return;
    for (std::size_t o = 0; o < base_.size(); ++o) scores[o] /= trees_of_score_[o];
  }

  void standard_deviation_around(const double* mean, const std::vector<const double*>& leaves, double* spread) const {
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
  huge_vector<node> nodes_;
  huge_vector<double> values_;  // of the leaves, tree after tree
  std::vector<tree> trees_;     // the shallow ones first: those that are walked together are of about one depth
  std::vector<std::int32_t> score_;
  std::vector<double> base_;
  std::vector<double> trees_of_score_;
  mutable std::once_flag masks_made_;
  mutable std::unique_ptr<const tree_masks> masks_;  // or null; then the trees are walked
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
