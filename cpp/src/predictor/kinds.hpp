// The kinds of models: one file each, listed in registry.cpp.
#pragma once

#include "warploom/predictor.hpp"

namespace warploom {

// Dense layers: z = x W^T + b, then the activation between layers; sums in double, input after input.
//
// settings  activation (relu, tanh, identity), output (see output_transform)
// arrays    layer.<i>.weight float32 [members, out, in], layer.<i>.bias float32 [members, out], i = 0, 1, ...
//           input.mean, input.scale float64 [inputs]: (t - mean) / scale enters the first layer, as float32, where
//           t is the input x or, where input.log_unit float64 [inputs] is above 0, sign(x) log(1 + |x| / log_unit)
//           output.mean, output.scale float64 [scores] (optional): score = mean + scale * z of the last layer
std::unique_ptr<model> make_network(const model_source& source);

// Decision trees, each node of which sends x left if x[feature] <= threshold.
//
// settings  comparison  how an input is prepared: "scikit-learn" rounds it to float32, "lightgbm" makes 0 of what is
//                       not above 1e-35f in magnitude; both compare it with the threshold as float64
//           combine     "sum" of the trees (boosting) or "mean" (forests, single trees)
//           output      see output_transform
// arrays    tree.offset int32 [trees + 1]: nodes tree.offset[t] up to tree.offset[t + 1] are those of tree t, whose
//             root is the first
//           node.feature int32 [nodes], -1 for a leaf; node.threshold float32 or float64 [nodes], read where there is
//             a feature; node.left, node.right int32 [nodes], counted from the tree's root, and for a leaf node.left
//             is its row of leaf.value, which no other leaf has
//           leaf.value float64 [leaves, width]: what a leaf adds to all scores; or, with width 1 and
//           tree.score int32 [trees] (optional), to the score of its tree
//           base float64 [scores]: what the sum starts from (0 in a mean)
std::unique_ptr<model> make_tree_ensemble(const model_source& source);

}  // namespace warploom
