"""One decision tree to look at, and what trees cost, for figures 12 to 15 of Gao et al. (2024)."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom.predictor import Model
from warploom.reproduce.gao2024.shuffle import FORMULAS, formula_columns, speedups_over_16
from warploom.training.data import Dataset, fastest, input_matrix
from warploom.training.families import FAMILIES, INPUTS, class_tree
from warploom.training.threads_per_row import THREADS, accuracies, choose

__all__ = ["Tree", "cost_of_trees", "decision_tree", "depth_study", "inference_microseconds"]

_Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False)
class Tree:
    """A decision tree to explain the choices.

    Attributes
    ----------
    nodes : pandas.DataFrame
        ``node``, ``depth``, ``feature`` (empty for a leaf), ``threshold`` (rows with at most this value go left),
        ``left``, ``right`` (-1 for a leaf), ``matrices``, and ``threads``, the most frequent optimum.
    importances : pandas.DataFrame
        ``feature`` and ``importance``, the share of the whole decrease of the Gini impurity, most important first.
    figures : dict from str to float
        ``accuracy``, ``merged_accuracy`` and ``plub`` (per cent) on the held-out matrices.
    """

    nodes: pd.DataFrame
    importances: pd.DataFrame
    figures: dict[str, float]


def decision_tree(known: Dataset, test: Dataset, depth: int = 5, seed: int = 0) -> Tree:
    """Train one decision tree on the optima, as for figure 13.

    Parameters
    ----------
    known, test : Dataset
        Columns are `CANDIDATES`.
    depth : int
        At most.
    seed : int

    Returns
    -------
    Tree
    """
    from sklearn.tree import DecisionTreeClassifier  # type: ignore[import-untyped, unused-ignore]

    fitted = DecisionTreeClassifier(max_depth=depth, random_state=seed)
    fitted.fit(input_matrix(known, "spmv", INPUTS), fastest(known))
    tree = fitted.tree_
    depths = np.zeros(tree.node_count, dtype=int)
    for node in range(tree.node_count):  # children come after their parents
        for child in (tree.children_left[node], tree.children_right[node]):
            if child >= 0:
                depths[child] = depths[node] + 1
    leaf = tree.children_left < 0
    threads = np.array(THREADS)[fitted.classes_[tree.value[:, 0].argmax(axis=1)]]
    nodes = pd.DataFrame(
        {
            "node": np.arange(tree.node_count),
            "depth": depths,
            "feature": ["" if end else INPUTS[f] for end, f in zip(leaf, tree.feature, strict=True)],
            "threshold": np.where(leaf, np.nan, tree.threshold),
            "left": tree.children_left,
            "right": tree.children_right,
            "matrices": tree.n_node_samples,
            "threads": threads,
        }
    )
    importances = pd.DataFrame({"feature": INPUTS, "importance": fitted.feature_importances_})
    model = class_tree(fitted, known)
    return Tree(
        nodes,
        importances.sort_values("importance", ascending=False, kind="stable", ignore_index=True),
        accuracies(test, choose(model, test)),
    )


def depth_study(known: Dataset, test: Dataset, depths: Iterable[int] = range(1, 16), seed: int = 0) -> pd.DataFrame:
    """Compare decision trees by their depth, as figure 12 does.

    Parameters
    ----------
    known, test : Dataset
    depths : iterable of int
    seed : int

    Returns
    -------
    pandas.DataFrame
        ``configuration`` (``tree``, ``mean``, ``SqMean``, ``optimal``), ``depth`` (NaN but for trees),
        ``arithmetic`` and ``geometric`` mean speedup over TpR 16, ``accuracy``, ``merged_accuracy``, ``plub``.
    """
    from sklearn.tree import DecisionTreeClassifier  # type: ignore[import-untyped, unused-ignore]

    X = input_matrix(known, "spmv", INPUTS)
    chosen = {}
    for depth in depths:
        fitted = DecisionTreeClassifier(max_depth=depth, random_state=seed).fit(X, fastest(known))
        chosen[f"depth {depth}"] = choose(class_tree(fitted, known), test)
    table = speedups_over_16(test, chosen).set_index("configuration")
    columns = {name: formula_columns(test, name) for name in FORMULAS} | chosen | {"optimal": fastest(test)}
    rows = []
    for name, taken in columns.items():
        rows.append(
            {
                "configuration": "tree" if name in chosen else name,
                "depth": float(name.split()[1]) if name in chosen else np.nan,
                "arithmetic": table.loc[name, "arithmetic"],
                "geometric": table.loc[name, "geometric"],
                **accuracies(test, taken),
            }
        )
    return pd.DataFrame(rows)


def cost_of_trees(
    known: Dataset,
    test: Dataset,
    numbers: Iterable[int] = (5, 10, 20, 50, 100, 200),
    depths: Iterable[int] = (2, 3, 5, 8, 12),
    seed: int = 0,
) -> pd.DataFrame:
    """Compare boosted trees by number and depth: how good they are and how long the C++ predictor takes.

    Parameters
    ----------
    known, test : Dataset
    numbers : iterable of int
        Numbers of iterations, ``nE`` of figures 14 and 15: each makes one tree for each number of threads.
    depths : iterable of int
    seed : int

    Returns
    -------
    pandas.DataFrame
        ``iterations``, ``depth``, ``trees``, ``accuracy``, ``merged_accuracy``, ``plub`` and ``microseconds`` for one
        matrix on this CPU, one thread.
    """
    X = input_matrix(known, "spmv", INPUTS)
    rows = []
    for number in numbers:
        for depth in depths:
            parameters = {
                "weighting": "equal",
                "iterations": number,
                "learning_rate": 0.1,
                "num_leaves": min(31, 2**depth),
                "max_depth": depth,
                "min_data_in_leaf": 5,
            }
            model = FAMILIES["boosted trees"].fit(X, known, parameters, seed)
            rows.append(
                {
                    "iterations": number,
                    "depth": depth,
                    "trees": len(model.arrays["tree.offset"]) - 1,
                    **accuracies(test, choose(model, test)),
                    "microseconds": inference_microseconds(model, input_matrix(test, "spmv", INPUTS)),
                }
            )
    return pd.DataFrame(rows)


def inference_microseconds(model: Model, X: _Array, repeats: int = 5) -> float:
    """Return the time of one prediction on this CPU, one thread.

    Parameters
    ----------
    model : Model
    X : ndarray of float64, shape (n, inputs)
        Features of some matrices.
    repeats : int

    Returns
    -------
    float
        Microseconds: the minimum of several means, each over about 1,000 matrices.
    """
    many = np.ascontiguousarray(np.tile(X, (-(-1000 // len(X)), 1)))
    model.predict(many)
    best = np.inf
    for _ in range(repeats):
        started = time.perf_counter()
        model.predict(many)
        best = min(best, time.perf_counter() - started)
    return 1e6 * best / len(many)
