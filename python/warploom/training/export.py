"""Models of scikit-learn, LightGBM and PyTorch as `warploom.predictor.Model`.

The trees compute what the library computes, bit for bit; a network computes what PyTorch computes in float64 from
float32 weights and inputs. The libraries are imported only when a function is called. Inputs given as `check`
are stored in the model, with the library's predictions for them, and verified whenever the model is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warploom.errors import ParameterError
from warploom.predictor import MAX_STORED_VECTORS, Model, StoredVectors

__all__ = [
    "drawn_for_check",
    "from_lightgbm",
    "from_sklearn_forest",
    "from_sklearn_gradient_boosting",
    "from_sklearn_tree",
    "from_torch_sequential",
]

_Array = NDArray[Any]


CHECKED = 8
"""Vectors that a trained model is verified by. A wheel has a limit, and twice as many take 0.3 MB of it."""


def drawn_for_check(X: _Array) -> _Array:
    """Return up to `CHECKED` rows, evenly drawn."""
    return X[:: max(1, len(X) // CHECKED)][:CHECKED]


class _Tree(NamedTuple):
    """One tree as a profile holds it; a leaf's ``left`` is its row of ``value``."""

    feature: _Array
    threshold: _Array
    left: _Array
    right: _Array
    value: _Array


def from_sklearn_tree(
    tree: Any,
    inputs: Sequence[str],
    outputs: Sequence[str] | None = None,
    *,
    output: str = "identity",
    check: ArrayLike | None = None,
) -> Model:
    """Export a single decision tree of scikit-learn, or an extra tree.

    Parameters
    ----------
    tree : sklearn.tree.DecisionTreeRegressor or DecisionTreeClassifier
        A fitted tree. A classifier predicts probabilities (scikit-learn 1.3 or later).
    inputs : sequence of str
        Names of the features.
    outputs : sequence of str, optional
        Names of the outputs; of a classifier, by default its classes.
    output : str
        ``exp`` if the targets are logarithms.
    check : array_like of float64, shape (n, inputs), optional
        Inputs to store, at most 16.

    Returns
    -------
    Model
    """
    return _averaged([tree], tree, inputs, outputs, output, check)


def from_sklearn_forest(
    forest: Any,
    inputs: Sequence[str],
    outputs: Sequence[str] | None = None,
    *,
    output: str = "identity",
    check: ArrayLike | None = None,
) -> Model:
    """Export a random forest or extra trees of scikit-learn.

    Parameters
    ----------
    forest : sklearn.ensemble.RandomForestRegressor, ExtraTreesRegressor or one of the classifiers
        A fitted forest. A classifier predicts probabilities (scikit-learn 1.3 or later). With ``n_jobs`` above 1,
        scikit-learn itself adds the trees in any order, so that the last bit of its results varies.
    inputs, outputs, output, check
        As for `from_sklearn_tree`.

    Returns
    -------
    Model
        With the spread across trees.
    """
    return _averaged(forest.estimators_, forest, inputs, outputs, output, check)


def from_sklearn_gradient_boosting(
    boosting: Any,
    inputs: Sequence[str],
    outputs: Sequence[str] | None = None,
    *,
    output: str | None = None,
    check: ArrayLike | None = None,
) -> Model:
    """Export gradient boosting of scikit-learn.

    Parameters
    ----------
    boosting : sklearn.ensemble.GradientBoostingRegressor or GradientBoostingClassifier
        A fitted model, whose initial prediction is scikit-learn's own.
    inputs : sequence of str
        Names of the features.
    outputs : sequence of str, optional
        Names of the outputs; of a classifier, by default its classes.
    output : str, optional
        ``exp`` for a regression of logarithms. By default a classifier predicts probabilities (``logistic`` with two
        classes, else ``softmax``); ``identity`` gives the raw scores.
    check : array_like of float64, shape (n, inputs), optional
        Inputs to store, at most 16.

    Returns
    -------
    Model
    """
    if boosting.init is not None and boosting.init != "zero":
        raise ParameterError("an initial prediction by another estimator cannot be exported", argument="boosting")
    is_classifier = _is_classifier(boosting)
    if is_classifier and boosting.loss != "log_loss":
        raise ParameterError(f"the loss '{boosting.loss}' is not supported", argument="boosting")
    num_scores = boosting.estimators_.shape[1]
    if output is None:
        output = "identity" if not is_classifier else "logistic" if num_scores == 1 else "softmax"
    trees = [_sklearn_arrays(tree) for tree in boosting.estimators_.ravel()]
    trees = [tree._replace(value=boosting.learning_rate * tree.value) for tree in trees]
    # The initial scores, which are constants here; scikit-learn has no public name for them.
    base = boosting._raw_predict_init(np.zeros((1, boosting.n_features_in_), np.float32)).ravel().astype(np.float64)
    score = np.tile(np.arange(num_scores, dtype=np.int32), len(boosting.estimators_))
    arrays = _tree_arrays(trees, base, score)

    def expected(X: _Array) -> _Array:
        if output == "identity":
            return _matrix(boosting.decision_function(X) if is_classifier else boosting.predict(X))
        return _matrix(boosting.predict_proba(X) if is_classifier else np.exp(boosting.predict(X)))

    settings = {"comparison": "scikit-learn", "combine": "sum", "output": output}
    names = outputs or (_class_names(boosting) if output != "identity" or num_scores > 1 else ["score"])
    return Model("tree_ensemble", inputs, names, settings, arrays, _stored(check, expected))


def from_lightgbm(
    booster: Any,
    outputs: Sequence[str] | None = None,
    *,
    inputs: Sequence[str] | None = None,
    output: str | None = None,
    check: ArrayLike | None = None,
) -> Model:
    """Export a booster of LightGBM: boosted trees or its random forest.

    Parameters
    ----------
    booster : lightgbm.Booster
        Trained on numbers without missing values, without categories and linear trees. `LGBMRegressor` and
        `LGBMClassifier` have it as ``booster_``. If training was stopped early, its best iterations are exported.
    outputs : sequence of str, optional
        Names of the outputs, by default ``output_0`` and so on.
    inputs : sequence of str, optional
        Names of the features, by default those of the booster.
    output : str, optional
        By default what the objective says (probabilities, exponentials); ``identity`` gives the raw scores.
    check : array_like of float64, shape (n, inputs), optional
        Inputs to store, at most 16.

    Returns
    -------
    Model

    Raises
    ------
    ParameterError
        The booster has something that trees of a profile cannot express.
    """
    dumped = booster.dump_model()
    objective = dumped.get("objective", "regression")
    by_objective = output is None
    if output is None:
        output = _lightgbm_output(objective)
    trees = [_lightgbm_arrays(info["tree_structure"]) for info in dumped["tree_info"]]
    num_scores = dumped["num_tree_per_iteration"]
    score = np.arange(len(trees), dtype=np.int32) % np.int32(num_scores)
    arrays = _tree_arrays(trees, np.zeros(num_scores), score.astype(np.int32))
    combine = "mean" if dumped["average_output"] else "sum"

    def expected(X: _Array) -> _Array:
        predicted = booster.predict(X, raw_score=not by_objective)
        if output == "logistic":
            return np.column_stack([1 - predicted, predicted])
        return _matrix(np.exp(predicted) if output == "exp" and not by_objective else predicted)

    if output in ("logistic", "softmax") and not by_objective:
        raise ParameterError("probabilities are exported where the objective says so", argument="output")
    num_outputs = 2 if output == "logistic" else num_scores
    return Model(
        "tree_ensemble",
        inputs or booster.feature_name(),
        outputs or [f"output_{i}" for i in range(num_outputs)],
        {"comparison": "lightgbm", "combine": combine, "output": output},
        arrays,
        _stored(check, expected),
    )


def from_torch_sequential(
    module: Any,
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    mean: ArrayLike,
    scale: ArrayLike,
    log_unit: ArrayLike | None = None,
    output_mean: ArrayLike | None = None,
    output_scale: ArrayLike | None = None,
    output: str = "identity",
    check: ArrayLike | None = None,
) -> Model:
    """Export a network of PyTorch, or several of the same layers.

    Parameters
    ----------
    module : torch.nn.Sequential or sequence of them
        `Linear` layers with one kind of activation between them (`ReLU`, `Tanh` or none); `Dropout` and `Identity`
        do nothing. Several networks average their scores. There is no activation after the last layer: see `output`.
    inputs, outputs : sequence of str
        Names.
    mean, scale : array_like of float64, shape (inputs,)
        The network's inputs are (t - mean) / scale.
    log_unit : array_like of float64, shape (inputs,), optional
        Where it is u > 0, t is sign(x) log(1 + abs(x) / u) of the input x; elsewhere t is x.
    output_mean, output_scale : array_like of float64, shape (scores,), optional
        A score is output_mean + output_scale * what the network gives; both or none.
    output : str
        From scores to outputs: ``identity``, ``exp``, ``softmax`` or ``logistic``.
    check : array_like of float64, shape (n, inputs), optional
        Inputs to store, at most 16. The outputs stored with them are PyTorch's, computed in float64.

    Returns
    -------
    Model
        With the spread across networks if there are several.

    Notes
    -----
    Mehrabi et al. [1]_ predict the times of four techniques with two hidden layers of 64 and 32 neurons, and for
    classification end in a softmax.

    References
    ----------
    .. [1] Mehrabi, Lee, Chatterjee, Sorin, Lee, O'Connor, "Learning sparse matrix row permutations for efficient SpMM
       on GPU architectures", ISPASS 2021, section V.
    """
    import torch

    members = [module] if isinstance(module, torch.nn.Module) else list(module)
    parts = [_torch_layers(member) for member in members]
    activation = parts[0][1]
    if any(part[1] != activation or len(part[0]) != len(parts[0][0]) for part in parts):
        raise ParameterError("the networks differ in their layers", argument="module")
    arrays: dict[str, _Array] = {"input.mean": _vector(mean), "input.scale": _vector(scale)}
    if log_unit is not None:
        arrays["input.log_unit"] = _vector(log_unit)
    if output_mean is not None and output_scale is not None:
        arrays |= {"output.mean": _vector(output_mean), "output.scale": _vector(output_scale)}
    for i in range(len(parts[0][0])):
        arrays[f"layer.{i}.weight"] = np.stack([layers[i][0] for layers, _ in parts])
        arrays[f"layer.{i}.bias"] = np.stack([layers[i][1] for layers, _ in parts])

    def expected(X: _Array) -> _Array:
        scores = np.mean([_torch_scores(member, _network_inputs(X, arrays)) for member in members], axis=0)
        if "output.mean" in arrays:
            scores = arrays["output.mean"] + arrays["output.scale"] * scores
        return _transformed(scores, output)

    settings = {"activation": activation, "output": output}
    return Model("network", inputs, outputs, settings, arrays, _stored(check, expected))


# scikit-learn.


def _averaged(
    trees: Iterable[Any], estimator: Any, inputs: Sequence[str], outputs: Any, output: str, check: ArrayLike | None
) -> Model:
    if _is_classifier(estimator) and estimator.n_outputs_ != 1:
        raise ParameterError("classifiers of several targets are not supported", argument="outputs")
    exported = [_sklearn_arrays(tree) for tree in trees]
    width = exported[0].value.shape[1]
    arrays = _tree_arrays(exported, np.zeros(width), None)

    def expected(X: _Array) -> _Array:
        scores = estimator.predict_proba(X) if _is_classifier(estimator) else estimator.predict(X)
        return _transformed(_matrix(scores), output)

    names = outputs or (_class_names(estimator) if _is_classifier(estimator) else _numbered(width))
    settings = {"comparison": "scikit-learn", "combine": "mean", "output": output}
    return Model("tree_ensemble", inputs, names, settings, arrays, _stored(check, expected))


def _sklearn_arrays(estimator: Any) -> _Tree:
    tree = estimator.tree_
    is_leaf = tree.children_left == -1
    leaves = np.flatnonzero(is_leaf)
    # [nodes, outputs, 1] of regressors, [nodes, 1, classes] of classifiers
    value = tree.value.reshape(tree.node_count, -1)[leaves]
    left = tree.children_left.copy()
    left[leaves] = np.arange(len(leaves))
    return _Tree(
        feature=np.where(is_leaf, -1, tree.feature),
        threshold=np.where(is_leaf, 0.0, tree.threshold),
        left=left,
        right=np.where(is_leaf, 0, tree.children_right),
        value=value.astype(np.float64),
    )


def _is_classifier(estimator: Any) -> bool:
    return hasattr(estimator, "classes_")


def _class_names(classifier: Any) -> list[str]:
    return [str(name) for name in classifier.classes_]


def _numbered(count: int) -> list[str]:
    return [f"output_{i}" for i in range(count)]


# LightGBM.


def _lightgbm_output(objective: str) -> str:
    name, *parameters = objective.split()
    if name == "binary" and "sigmoid:1" in parameters:
        return "logistic"
    if name == "multiclass":
        return "softmax"
    if name in ("poisson", "gamma", "tweedie"):
        return "exp"
    unchanged = ("regression", "regression_l1", "huber", "fair", "quantile", "mape", "lambdarank", "rank_xendcg")
    if name in unchanged and "sqrt" not in parameters:
        return "identity"
    raise ParameterError(f"the objective '{objective}' is not supported; output='identity' exports the raw scores")


def _lightgbm_arrays(structure: dict[str, Any]) -> _Tree:
    nodes: list[tuple[int, float, int, int]] = []
    values: list[float] = []
    # Breadth first: a node's children get the next two numbers. Trees may be deeper than Python recurses.
    queue = [structure]
    for node in _growing(queue):
        if "split_feature" not in node:
            if "leaf_const" in node:
                raise ParameterError("linear trees are not supported", argument="booster")
            nodes.append((-1, 0.0, len(values), 0))
            values.append(float(node["leaf_value"]))
            continue
        if node["decision_type"] != "<=" or node["missing_type"] == "Zero":
            raise ParameterError("categories and zeros that mean missing are not supported", argument="booster")
        nodes.append((node["split_feature"], float(node["threshold"]), len(queue), len(queue) + 1))
        queue += [node["left_child"], node["right_child"]]
    feature, threshold, left, right = zip(*nodes, strict=True)
    return _Tree(
        np.array(feature), np.array(threshold), np.array(left), np.array(right), np.array(values)[:, np.newaxis]
    )


def _growing(queue: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Iterate over a list that grows meanwhile."""
    position = 0
    while position < len(queue):
        yield queue[position]
        position += 1


# PyTorch.


def _torch_layers(module: Any) -> tuple[list[tuple[_Array, _Array]], str]:
    """Return the weights and biases of the layers, and the activation between them."""
    from torch import nn

    layers: list[tuple[_Array, _Array]] = []
    activations: list[str] = []  # between two layers
    pending = "identity"
    for part in module:
        if isinstance(part, nn.Linear):
            if layers:
                activations.append(pending)
            pending = "identity"
            weight = part.weight.detach().cpu().numpy().astype(np.float32)
            bias = np.zeros(len(weight), np.float32) if part.bias is None else part.bias.detach().cpu().numpy()
            layers.append((weight, bias.astype(np.float32)))
        elif isinstance(part, (nn.ReLU, nn.Tanh)) and layers and pending == "identity":
            pending = "relu" if isinstance(part, nn.ReLU) else "tanh"
        elif not isinstance(part, (nn.Dropout, nn.Identity)):
            raise ParameterError(f"{type(part).__name__} cannot be exported there", argument="module")
    if not layers or pending != "identity" or len(set(activations)) > 1:
        raise ParameterError("linear layers with one kind of activation between them", argument="module")
    return layers, activations[0] if activations else "identity"


def _torch_scores(module: Any, X: _Array) -> _Array:
    import copy

    import torch

    with torch.no_grad():
        scores: _Array = copy.deepcopy(module).cpu().double().eval()(torch.from_numpy(X)).numpy()
    return scores


def _network_inputs(X: _Array, arrays: dict[str, _Array]) -> _Array:
    """Transform as the C++ predictor does; rounded to float32, returned as float64."""
    unit = arrays.get("input.log_unit", np.zeros(X.shape[1]))
    logarithm = np.copysign(np.log1p(np.abs(X) / np.where(unit > 0, unit, 1.0)), X)
    transformed = (np.where(unit > 0, logarithm, X) - arrays["input.mean"]) / arrays["input.scale"]
    return transformed.astype(np.float32).astype(np.float64)


# Shared.


def _tree_arrays(trees: Sequence[_Tree], base: _Array, score: _Array | None) -> dict[str, _Array]:
    first_leaf = np.cumsum([0, *(len(tree.value) for tree in trees)])
    left = [np.where(tree.feature == -1, tree.left + first_leaf[t], tree.left) for t, tree in enumerate(trees)]
    arrays: dict[str, _Array] = {
        "tree.offset": np.cumsum([0, *(len(tree.feature) for tree in trees)]).astype(np.int32),
        "node.feature": np.concatenate([tree.feature for tree in trees]).astype(np.int32),
        "node.threshold": np.concatenate([tree.threshold for tree in trees]).astype(np.float64),
        "node.left": np.concatenate(left).astype(np.int32),
        "node.right": np.concatenate([tree.right for tree in trees]).astype(np.int32),
        "leaf.value": np.ascontiguousarray(np.concatenate([tree.value for tree in trees]), dtype=np.float64),
        "base": np.ascontiguousarray(base, dtype=np.float64),
    }
    if score is not None:
        arrays["tree.score"] = score
    return arrays


def _stored(check: ArrayLike | None, expected: Any) -> StoredVectors | None:
    if check is None:
        return None
    inputs = np.ascontiguousarray(check, dtype=np.float64)
    if not 1 <= len(inputs) <= MAX_STORED_VECTORS:
        raise ParameterError(f"1 to {MAX_STORED_VECTORS} vectors are stored, not {len(inputs)}", argument="check")
    return StoredVectors(inputs, np.ascontiguousarray(expected(inputs), dtype=np.float64))


def _transformed(scores: _Array, output: str) -> _Array:
    if output == "exp":
        return np.exp(scores)
    if output == "softmax":
        exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))
    if output == "logistic":
        probability = 1 / (1 + np.exp(-scores))
        return np.hstack([1 - probability, probability])
    return scores


def _matrix(values: ArrayLike) -> _Array:
    array = np.asarray(values, dtype=np.float64)
    return array if array.ndim == 2 else array[:, np.newaxis]


def _vector(values: ArrayLike) -> _Array:
    return np.ascontiguousarray(values, dtype=np.float64)
