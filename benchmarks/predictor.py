"""What a prediction costs, in microseconds per matrix on one core.

Run ``python benchmarks/predictor.py``. The networks have the layers of Mehrabi et al. (64 and 32 neurons).
Trees are random: those of forests are grown until every one of `samples` samples has its leaf, unless depth ends them,
and are unbalanced as such trees are; those of boosting have so many leaves as LightGBM gives them by default.

Three times are measured: a row of a batch (throughput); a call from Python with one row (latency, with what Python
itself costs), both with inputs that differ from row to row; and such a call after the caches have been swept, which is
what the first prediction after other work costs.
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np
from rich.console import Console
from rich.table import Table

import warploom as wl
from warploom.predictor import Model

FEATURES = 24


def network(outputs, members, rng):
    arrays = {"input.mean": np.zeros(FEATURES), "input.scale": np.ones(FEATURES), "input.log_unit": np.ones(FEATURES)}
    widths = [FEATURES, 64, 32, outputs]
    for i, (before, after) in enumerate(itertools.pairwise(widths)):
        arrays[f"layer.{i}.weight"] = (rng.normal(size=(members, after, before)) / np.sqrt(before)).astype(np.float32)
        arrays[f"layer.{i}.bias"] = rng.normal(size=(members, after)).astype(np.float32)
    return Model("network", *names(outputs), {"activation": "relu", "output": "identity"}, arrays)


def grown(samples, max_leaves, max_depth, rng):
    """Return feature, threshold, left, right of a tree over uniform inputs; the largest leaf is split next."""
    feature, threshold, left, right = [-1], [0.0], [0], [0]
    bounds = {0: (np.zeros(FEATURES), np.ones(FEATURES), samples, 0)}
    queue = [0]
    leaves = 1
    while queue and leaves < max_leaves:
        node = queue.pop(0)
        low, high, here, depth = bounds.pop(node)
        if here < 2 or depth == max_depth:
            continue
        chosen = int(rng.integers(FEATURES))
        share = rng.uniform(0.2, 0.8)
        at = low[chosen] + share * (high[chosen] - low[chosen])
        feature[node], threshold[node] = chosen, at
        left[node], right[node] = len(feature), len(feature) + 1
        below = min(max(1, round(share * here)), here - 1)
        for side, count in ((0, below), (1, here - below)):
            child_low, child_high = low.copy(), high.copy()
            (child_high if side == 0 else child_low)[chosen] = at
            bounds[len(feature)] = (child_low, child_high, count, depth + 1)
            queue.append(len(feature))
            feature.append(-1)
            threshold.append(0.0)
            left.append(0)
            right.append(0)
        leaves += 1
    return np.array(feature), np.array(threshold), np.array(left), np.array(right)


def trees(count, outputs, comparison, one_score, rng, *, samples=10**9, max_leaves=10**9, max_depth=10**9):
    """Return an ensemble that cycles through a few shapes, with nodes and leaves of its own for every tree."""
    shapes = [grown(samples, max_leaves, max_depth, rng) for _ in range(min(count, 24))]
    parts = [shapes[i % len(shapes)] for i in range(count)]
    first_leaf = 0
    lefts = []
    for feature, _, left, _ in parts:
        leaves = np.flatnonzero(feature == -1)
        copied = left.copy()
        copied[leaves] = first_leaf + np.arange(len(leaves))
        first_leaf += len(leaves)
        lefts.append(copied)
    arrays = {
        "tree.offset": np.cumsum([0, *(len(part[0]) for part in parts)]).astype(np.int32),
        "node.feature": np.concatenate([part[0] for part in parts]).astype(np.int32),
        "node.threshold": np.concatenate([part[1] for part in parts]),
        "node.left": np.concatenate(lefts).astype(np.int32),
        "node.right": np.concatenate([part[3] for part in parts]).astype(np.int32),
        "leaf.value": rng.normal(size=(first_leaf, 1 if one_score else outputs)),
        "base": np.zeros(outputs),
    }
    if one_score:
        arrays["tree.score"] = (np.arange(count) % outputs).astype(np.int32)
    settings = {"comparison": comparison, "combine": "sum" if one_score else "mean", "output": "identity"}
    return Model("tree_ensemble", *names(outputs), settings, arrays)


def names(outputs):
    return [f"feature_{i}" for i in range(FEATURES)], [f"candidate_{i}" for i in range(outputs)]


def batch_microseconds(model, X):
    times = []
    for _ in range(5):
        start = time.perf_counter()
        model.predict(X)
        times.append(time.perf_counter() - start)
    return np.median(times) / len(X) * 1e6


def call_microseconds(model, X, sweep):
    rows = [row[np.newaxis] for row in X]
    model.predict(rows[0])
    times = []
    for row in rows:
        if sweep is not None:
            sweep += 1
        start = time.perf_counter()
        model.predict(row)
        times.append(time.perf_counter() - start)
    return np.median(times) * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2000, help="different rows of inputs (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    wl.set_num_threads(1)
    rng = np.random.default_rng(arguments.seed)
    X = rng.random((arguments.rows, FEATURES))
    models = {
        "network 24-64-32-4": network(4, 1, rng),
        "network 24-64-32-40": network(40, 1, rng),
        "5 networks 24-64-32-40": network(40, 5, rng),
        "single tree, depth 12, 6 outputs": trees(1, 6, "scikit-learn", False, rng, samples=2000, max_depth=12),
        "forest, 100 trees, depth 12, 6 outputs": trees(100, 6, "scikit-learn", False, rng, samples=2000, max_depth=12),
        "forest, 300 trees, depth 12, 6 outputs": trees(300, 6, "scikit-learn", False, rng, samples=2000, max_depth=12),
        "forest, 500 trees, depth 12, 6 outputs": trees(500, 6, "scikit-learn", False, rng, samples=2000, max_depth=12),
        "forest, 300 trees, full depth, 40 outputs": trees(300, 40, "scikit-learn", False, rng, samples=2000),
        "boosting, 500 trees, 31 leaves, 1 output": trees(500, 1, "lightgbm", True, rng, max_leaves=31),
        "boosting, 100 x 6 trees, 31 leaves": trees(600, 6, "lightgbm", True, rng, max_leaves=31),
        "boosting, 100 x 40 trees, 31 leaves": trees(4000, 40, "lightgbm", True, rng, max_leaves=31),
    }
    sweep = np.zeros(1 << 23)  # 64 MiB
    table = Table("model", "MiB", "batch", "call", "call, caches swept", title="microseconds per matrix")
    for name, model in models.items():
        size = sum(array.nbytes for array in model.arrays.values()) / 2**20
        costs = (
            batch_microseconds(model, X),
            call_microseconds(model, X, None),
            call_microseconds(model, X[:100], sweep),
        )
        table.add_row(name, f"{size:.2f}", *(f"{cost:.2f}" for cost in costs))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
