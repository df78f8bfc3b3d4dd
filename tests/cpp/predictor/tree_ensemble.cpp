// Trees against a walk of the arrays, node after node; and trees that are none.
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "support.hpp"
#include "warploom/predictor.hpp"

namespace warploom {
namespace {

struct forest {
  std::vector<std::int32_t> offset{0};
  std::vector<std::int32_t> feature;
  std::vector<double> threshold;
  std::vector<std::int32_t> left;
  std::vector<std::int32_t> right;
  std::vector<double> value;
  std::int64_t width = 2;
  std::vector<double> base{0, 0};
  std::string comparison = "scikit-learn";
  std::string combine = "mean";

  static constexpr std::int64_t num_inputs = 3;

  std::unique_ptr<model> make() const {
    const auto nodes = static_cast<std::int64_t>(feature.size());
    return make_model({"tree_ensemble",
                       num_inputs,
                       {{"comparison", comparison}, {"combine", combine}, {"output", "identity"}},
                       {{"tree.offset", {offset, {static_cast<std::int64_t>(offset.size())}}},
                        {"node.feature", {feature, {nodes}}},
                        {"node.threshold", {threshold, {nodes}}},
                        {"node.left", {left, {nodes}}},
                        {"node.right", {right, {nodes}}},
                        {"leaf.value", {value, {static_cast<std::int64_t>(value.size()) / width, width}}},
                        {"base", {base, {2}}}}});
  }

  // Row of leaf.value that tree t leads to.
  std::int32_t walk(std::size_t t, const std::vector<double>& x) const {
    std::int32_t at = offset[t];
    while (feature[at] != -1) {
      double input = x[feature[at]];
      if (comparison == "scikit-learn") input = static_cast<float>(input);
      at = offset[t] + (input <= threshold[at] ? left[at] : right[at]);
    }
    return left[at];
  }

  std::vector<double> outputs(const std::vector<double>& x) const {
    std::vector<double> sum = base;
    for (std::size_t t = 0; t + 1 < offset.size(); ++t) {
      for (int o = 0; o < 2; ++o) sum[o] += value[2 * walk(t, x) + o];
    }
    if (combine == "mean") {
      for (double& one : sum) one /= static_cast<double>(offset.size() - 1);
    }
    return sum;
  }
};

// A tree in which every leaf in turn may be split, so that it is unbalanced.
void add_tree(forest& trees, int splits, std::mt19937& random) {
  const auto first = static_cast<std::size_t>(trees.offset.back());
  const auto uniform = [&] { return std::uniform_real_distribution<double>(-1, 1)(random); };
  const auto add_leaf = [&] {
    trees.feature.push_back(-1);
    trees.threshold.push_back(0);
    trees.left.push_back(static_cast<std::int32_t>(trees.value.size() / 2));
    trees.right.push_back(0);
    trees.value.insert(trees.value.end(), {uniform(), uniform()});
  };
  add_leaf();
  std::size_t node = first;
  for (int i = 0; i < splits; ++i) {
    while (trees.feature[node] != -1) {
      node = first + (random() % 4 ? trees.left[node] : trees.right[node]);
    }
    trees.feature[node] = static_cast<std::int32_t>(random() % forest::num_inputs);
    trees.threshold[node] = uniform();
    const auto children = static_cast<std::int32_t>(trees.feature.size() - first);
    trees.left[node] = children;
    trees.right[node] = children + 1;
    add_leaf();
    add_leaf();
    if (random() % 3 == 0) node = first;
  }
  trees.offset.push_back(static_cast<std::int32_t>(trees.feature.size()));
}

forest random_forest(const std::string& comparison, const std::string& combine, int trees) {
  forest made;
  made.comparison = comparison;
  made.combine = combine;
  if (combine == "sum") made.base = {0.5, -2};
  std::mt19937 random(7);
  for (int t = 0; t < trees; ++t) add_tree(made, t % 5 == 0 ? 0 : t * 3 % 61, random);
  return made;
}

forest small_forest() {
  forest trees;
  std::mt19937 random(1);
  add_tree(trees, 3, random);
  add_tree(trees, 2, random);
  return trees;
}

}  // namespace

TEST_CASE("tree_ensemble: as a walk node after node, at thresholds and beside them") {
  for (const char* comparison : {"scikit-learn", "lightgbm"}) {
    for (const char* combine : {"mean", "sum"}) {
      for (const int count : {1, 2, 16, 47}) {
        const forest trees = random_forest(comparison, combine, count);
        const auto model = trees.make();
        CHECK(model->has_spread() == (count > 1 && trees.combine == "mean"));
        std::mt19937 random(3);
        for (int i = 0; i < 300; ++i) {
          std::vector<double> x(forest::num_inputs);
          for (double& one : x) {
            one = trees.threshold[random() % trees.threshold.size()];
            const auto away = random() % 5;
            if (away == 1) one = std::nextafter(one, 2);
            if (away == 2) one = std::nextafter(one, -2);
            if (away == 3) one = std::nextafter(static_cast<float>(one), 2.0f);
            if (away == 4) one = static_cast<float>(one);
          }
          std::vector<double> outputs(2);
          model->predict(x, outputs);
          REQUIRE(outputs == trees.outputs(x));
        }
      }
    }
  }
}

namespace {

// Trees with a score of their own, and at most `most` leaves, which have one value.
struct scored_forest {
  std::int32_t num_inputs;
  std::int32_t num_scores;
  forest trees;
  std::vector<std::int32_t> score;

  scored_forest(int inputs, int scores, int count, int most, const std::string& comparison, const std::string& combine)
      : num_inputs(inputs), num_scores(scores) {
    trees.comparison = comparison;
    trees.combine = combine;
    trees.width = 1;
    trees.base.assign(num_scores, 0);
    std::mt19937 random(5);
    if (combine == "sum") {
      for (double& one : trees.base) one = std::normal_distribution<double>()(random);
    }
    for (int t = 0; t < count; ++t) {
      add(static_cast<int>(random() % most), random);
      score.push_back(t < scores ? t : static_cast<std::int32_t>(random() % scores));
    }
  }

  void add(int splits, std::mt19937& random) {
    forest one;
    add_tree(one, splits, random);
    const auto first_leaf = static_cast<std::int32_t>(trees.value.size());
    for (std::size_t k = 0; k < one.feature.size(); ++k) {
      const bool leaf = one.feature[k] == -1;
      trees.feature.push_back(leaf ? -1 : static_cast<std::int32_t>(random() % num_inputs));
      // Few different thresholds, so that nodes share them.
      trees.threshold.push_back(random() % 2 ? std::round(20 * one.threshold[k]) / 20 : one.threshold[k]);
      trees.left.push_back(leaf ? first_leaf + one.left[k] : one.left[k]);
      trees.right.push_back(one.right[k]);
    }
    for (std::size_t leaf = 0; leaf < one.value.size() / 2; ++leaf) trees.value.push_back(one.value[2 * leaf]);
    trees.offset.push_back(static_cast<std::int32_t>(trees.feature.size()));
  }

  std::unique_ptr<model> make() const {
    const auto nodes = static_cast<std::int64_t>(trees.feature.size());
    return make_model({"tree_ensemble",
                       num_inputs,
                       {{"comparison", trees.comparison}, {"combine", trees.combine}, {"output", "identity"}},
                       {{"tree.offset", {trees.offset, {static_cast<std::int64_t>(trees.offset.size())}}},
                        {"tree.score", {score, {static_cast<std::int64_t>(score.size())}}},
                        {"node.feature", {trees.feature, {nodes}}},
                        {"node.threshold", {trees.threshold, {nodes}}},
                        {"node.left", {trees.left, {nodes}}},
                        {"node.right", {trees.right, {nodes}}},
                        {"leaf.value", {trees.value, {static_cast<std::int64_t>(trees.value.size()), 1}}},
                        {"base", {trees.base, {num_scores}}}}});
  }

  std::vector<double> outputs(std::vector<double> x) const {
    if (trees.comparison == "lightgbm") {
      for (double& one : x) one = std::abs(one) > 1e-35 ? one : 0;
    }
    std::vector<double> sum = trees.base;
    std::vector<double> count(num_scores, 0);
    for (std::size_t t = 0; t < score.size(); ++t) {
      sum[score[t]] += trees.value[trees.walk(t, x)];
      count[score[t]] += 1;
    }
    if (trees.combine == "mean") {
      for (std::int32_t o = 0; o < num_scores; ++o) sum[o] /= count[o];
    }
    return sum;
  }
};

}  // namespace

TEST_CASE("tree_ensemble: trees with a score of their own, small and large ones") {
  struct shape {
    int inputs, scores, count, most_leaves;
  };
  // The last ones have too many inputs or too large trees to be evaluated other than by a walk.
  const shape shapes[] = {{1, 1, 1, 1},   {3, 2, 2, 16},    {12, 31, 930, 10}, {32, 5, 33, 16},  {33, 5, 64, 16},
                          {64, 3, 95, 7}, {7, 1, 4500, 16}, {65, 3, 40, 16},   {20, 4, 200, 18}, {5, 2, 9, 60}};
  for (const shape& of : shapes) {
    for (const char* comparison : {"scikit-learn", "lightgbm"}) {
      for (const char* combine : {"mean", "sum"}) {
        const scored_forest trees(of.inputs, of.scores, of.count, of.most_leaves, comparison, combine);
        const auto model = trees.make();
        std::mt19937 random(3);
        const int rows = of.count > 1000 ? 20 : 100;
        std::vector<double> inputs, expected;
        for (int i = 0; i < rows; ++i) {
          std::vector<double> x(of.inputs);
          for (double& one : x) {
            one = trees.trees.threshold[random() % trees.trees.threshold.size()];
            const auto away = random() % 5;
            if (away == 1) one = std::nextafter(one, 2);
            if (away == 2) one = std::nextafter(one, -2);
            if (away == 3) one = std::nextafter(static_cast<float>(one), 2.0f);
            if (away == 4) one = std::uniform_real_distribution<double>(-2, 2)(random);
          }
          const std::vector<double> outputs = trees.outputs(x);
          inputs.insert(inputs.end(), x.begin(), x.end());
          expected.insert(expected.end(), outputs.begin(), outputs.end());
        }
        std::vector<double> found(expected.size());
        model->predict(inputs, found);
        REQUIRE(found == expected);
        for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) {  // one row is not evaluated as several are
          const auto x = std::span(inputs).subspan(i * of.inputs, of.inputs);
          std::vector<double> one(of.scores);
          model->predict(x, one);
          REQUIRE(one == std::vector(expected.begin() + i * of.scores, expected.begin() + (i + 1) * of.scores));
        }
        if (!model->has_spread()) continue;
        std::vector<double> with_spread(expected.size()), spread(expected.size());
        model->predict(inputs, with_spread, spread);
        REQUIRE(with_spread == expected);
      }
    }
  }
}

TEST_CASE("tree_ensemble: spread across trees") {
  const forest trees = random_forest("scikit-learn", "mean", 20);
  const std::vector<double> x{0.1, -0.3, 0.7};
  std::vector<double> outputs(2);
  std::vector<double> spread(2);
  trees.make()->predict(x, outputs, spread);
  for (int o = 0; o < 2; ++o) {
    double squares = 0;
    for (std::size_t t = 0; t < 20; ++t) squares += std::pow(trees.value[2 * trees.walk(t, x) + o] - outputs[o], 2);
    CHECK(spread[o] == doctest::Approx(std::sqrt(squares / 20)).epsilon(1e-12));
  }
}

TEST_CASE("tree_ensemble: what LightGBM takes for zero is zero") {
  forest trees;
  trees.comparison = "lightgbm";
  trees.offset = {0, 3};
  trees.feature = {0, -1, -1};
  trees.threshold = {-1e-36, 0, 0};
  trees.left = {1, 0, 1};
  trees.right = {2, 0, 0};
  trees.value = {1, 1, 2, 2};
  std::vector<double> outputs(2);
  trees.make()->predict(std::vector<double>{-2e-36, 0, 0}, outputs);
  CHECK(outputs[0] == 2);  // 0, which is above the threshold
  trees.make()->predict(std::vector<double>{-2e-35, 0, 0}, outputs);
  CHECK(outputs[0] == 1);
}

TEST_CASE("tree_ensemble: a tree deeper than any stack") {
  forest trees;
  constexpr std::int32_t depth = 200000;
  for (std::int32_t d = 0; d < depth; ++d) {  // node 2 d and its left child, the leaf 2 d + 1
    trees.feature.insert(trees.feature.end(), {0, -1});
    trees.threshold.insert(trees.threshold.end(), {static_cast<double>(d), 0});
    trees.left.insert(trees.left.end(), {2 * d + 1, d});
    trees.right.insert(trees.right.end(), {2 * d + 2, 0});
  }
  trees.feature.push_back(-1);
  trees.threshold.push_back(0);
  trees.left.push_back(depth);
  trees.right.push_back(0);
  trees.offset.push_back(2 * depth + 1);
  for (std::int32_t row = 0; row <= depth; ++row) trees.value.insert(trees.value.end(), 2, row);
  const auto model = trees.make();
  std::vector<double> outputs(2);
  for (const std::int32_t row : {0, 1, 2, 3, 4, 5, 100, 54321, depth - 1, depth}) {
    model->predict(std::vector<double>{static_cast<double>(row), 0, 0}, outputs);
    CHECK(outputs[0] == row);
  }
}

TEST_CASE("tree_ensemble: names what is wrong") {
  const auto refused = [](const forest& trees, const std::string& argument, std::int64_t position) {
    const error e = test::error_of([&] { trees.make(); });
    CHECK(e.kind() == error_kind::profile);
    CHECK(e.argument() == argument);
    CHECK(e.position() == position);
  };
  const forest good = small_forest();  // nodes 0 to 6, then 7 to 11; 0 and 7 are roots
  REQUIRE(good.offset == std::vector<std::int32_t>{0, 7, 12});
  good.make();
  forest trees = good;
  trees.left[7] = 5;
  refused(trees, "node.left", 7);  // beyond its tree
  trees = good;
  trees.right[0] = -1;
  refused(trees, "node.right", 0);
  trees = good;
  trees.right[0] = 0;
  refused(trees, "node.right", 0);  // a cycle
  trees = good;
  trees.right[0] = trees.left[0];
  refused(trees, "node.right", 0);  // a child of one node twice
  trees = good;
  trees.feature[7] = -1;
  trees.left[7] = 0;
  refused(trees, "node.left", 8);  // not reached
  trees = good;
  trees.feature[5] = trees.feature[6] = -1;
  trees.left[6] = trees.left[5];
  CHECK(test::error_of([&] { trees.make(); }).argument() == "node.left");  // two leaves, one row of values
  trees = good;
  trees.feature[0] = 3;
  refused(trees, "node.feature", 0);
  trees = good;
  trees.feature[0] = -2;
  refused(trees, "node.feature", 0);
  trees = good;
  trees.threshold[0] = std::numeric_limits<double>::quiet_NaN();
  refused(trees, "node.threshold", 0);
  trees = good;
  trees.value.pop_back();
  trees.value.pop_back();
  trees.value.back() = std::numeric_limits<double>::infinity();
  refused(trees, "leaf.value", static_cast<std::int64_t>(trees.value.size()) - 1);
  trees = good;
  trees.width = 1;
  refused(trees, "leaf.value", -1);
  trees = good;
  trees.offset = {0, 7, 7, 12};
  refused(trees, "tree.offset", 2);
  trees.offset = {1, 7, 12};
  refused(trees, "tree.offset", 0);
  trees.offset = {0, 7, 13};
  refused(trees, "tree.offset", 2);
  trees.offset = {0};
  refused(trees, "tree.offset", -1);
  trees = good;
  trees.base[0] = 1;
  refused(trees, "base", -1);  // of a mean
}

}  // namespace warploom
