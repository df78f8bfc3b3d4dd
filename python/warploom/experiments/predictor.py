"""What a prediction costs on one core, by kind and size of the model.

The networks have the layers of Mehrabi et al. (64 and 32 neurons). Trees are random: those of forests are grown until
every one of some samples has its leaf, unless depth ends them, and are unbalanced as such trees are; those of boosting
have so many leaves as LightGBM gives them by default.

Three times are measured: a row of a batch (throughput); a call from Python with one row (latency, with Python's
own overhead), both with inputs that differ from row to row; and such a call with cold caches, which is the cost of the
first prediction after other work.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom import features
from warploom._device import Device
from warploom.experiments._wall_clock import median_us, num_threads
from warploom.experiments.registry import Progress, register
from warploom.predictor import Model

__all__ = ["MODELS", "forest", "network", "predictor"]

_FEATURES = len(features.names("spmm"))
_ROWS = 2000
_COLD_ROWS = 100
_CACHES = 1 << 26
"""Bytes, more than the caches of a CPU core hold."""

_Generator = np.random.Generator


def network(outputs: int, members: int, random: _Generator) -> Model:
    """Return a network of random weights.

    Parameters
    ----------
    outputs : int
    members : int
        Networks whose scores are averaged.
    random : numpy.random.Generator
    """
    zeros, ones = np.zeros(_FEATURES), np.ones(_FEATURES)
    arrays: dict[str, NDArray[Any]] = {"input.mean": zeros, "input.scale": ones, "input.log_unit": ones}
    for i, (before, after) in enumerate(itertools.pairwise([_FEATURES, 64, 32, outputs])):
        weights = random.normal(size=(members, after, before)) / np.sqrt(before)
        arrays[f"layer.{i}.weight"] = weights.astype(np.float32)
        arrays[f"layer.{i}.bias"] = random.normal(size=(members, after)).astype(np.float32)
    return Model("network", *_names(outputs), {"activation": "relu", "output": "identity"}, arrays)


def forest(
    count: int,
    outputs: int,
    random: _Generator,
    *,
    boosted: bool = False,
    samples: int = 10**9,
    leaves: int = 10**9,
    depth: int = 10**9,
) -> Model:
    """Return trees of a few random shapes, with nodes and leaves of its own for every tree.

    Parameters
    ----------
    count : int
        Of trees.
    outputs : int
    random : numpy.random.Generator
    boosted : bool
        Whether each tree adds to one output and compares as LightGBM's do, instead of holding all outputs and comparing
        as scikit-learn's do.
    samples : int
        A leaf with one of them is not split.
    leaves, depth : int
        At most.
    """
    shapes = [_grown(samples, leaves, depth, random) for _ in range(min(count, 24))]
    parts = [shapes[i % len(shapes)] for i in range(count)]
    lefts, first = [], 0
    for feature, _, left, _ in parts:
        ends = np.flatnonzero(feature == -1)
        copied = left.copy()
        copied[ends] = first + np.arange(len(ends))
        first += len(ends)
        lefts.append(copied)
    arrays: dict[str, NDArray[Any]] = {
        "tree.offset": np.cumsum([0, *(len(part[0]) for part in parts)]).astype(np.int32),
        "node.feature": np.concatenate([part[0] for part in parts]).astype(np.int32),
        "node.threshold": np.concatenate([part[1] for part in parts]),
        "node.left": np.concatenate(lefts).astype(np.int32),
        "node.right": np.concatenate([part[3] for part in parts]).astype(np.int32),
        "leaf.value": random.normal(size=(first, 1 if boosted else outputs)),
        "base": np.zeros(outputs),
    }
    if boosted:
        arrays["tree.score"] = (np.arange(count) % outputs).astype(np.int32)
    settings = {
        "comparison": "lightgbm" if boosted else "scikit-learn",
        "combine": "sum" if boosted else "mean",
        "output": "identity",
    }
    return Model("tree_ensemble", *_names(outputs), settings, arrays)


def _grown(samples: int, leaves: int, depth: int, random: _Generator) -> tuple[NDArray[Any], ...]:
    """Return feature, threshold, left and right of a tree over uniform inputs; nodes are split in their order."""
    feature, threshold, left, right = [-1], [0.0], [0], [0]
    bounds = {0: (np.zeros(_FEATURES), np.ones(_FEATURES), samples, 0)}
    for node in itertools.count():
        if node == len(feature) or (len(feature) + 1) // 2 >= leaves:
            break
        low, high, here, level = bounds.pop(node)
        if here < 2 or level == depth:
            continue
        chosen = int(random.integers(_FEATURES))
        share = random.uniform(0.2, 0.8)
        at = low[chosen] + share * (high[chosen] - low[chosen])
        feature[node], threshold[node] = chosen, at
        left[node], right[node] = len(feature), len(feature) + 1
        below = min(max(1, round(share * here)), here - 1)
        for side, count in ((0, below), (1, here - below)):
            child_low, child_high = low.copy(), high.copy()
            (child_high if side == 0 else child_low)[chosen] = at
            bounds[len(feature)] = (child_low, child_high, count, level + 1)
            feature.append(-1)
            threshold.append(0.0)
            left.append(0)
            right.append(0)
    return np.array(feature), np.array(threshold), np.array(left), np.array(right)


def _names(outputs: int) -> tuple[list[str], list[str]]:
    return [f"feature_{i}" for i in range(_FEATURES)], [f"candidate_{i}" for i in range(outputs)]


MODELS: Mapping[str, Callable[[_Generator], Model]] = {
    "network 24-64-32-4": lambda random: network(4, 1, random),
    "network 24-64-32-40": lambda random: network(40, 1, random),
    "5 networks 24-64-32-40": lambda random: network(40, 5, random),
    "tree, depth 12, 6 outputs": lambda random: forest(1, 6, random, samples=2000, depth=12),
    "forest, 100 trees, depth 12, 6 outputs": lambda random: forest(100, 6, random, samples=2000, depth=12),
    "forest, 300 trees, depth 12, 6 outputs": lambda random: forest(300, 6, random, samples=2000, depth=12),
    "forest, 500 trees, depth 12, 6 outputs": lambda random: forest(500, 6, random, samples=2000, depth=12),
    "forest, 300 trees, full depth, 40 outputs": lambda random: forest(300, 40, random, samples=2000),
    "boosting, 500 trees, 31 leaves, 1 output": lambda random: forest(500, 1, random, boosted=True, leaves=31),
    "boosting, 600 trees, 31 leaves, 6 outputs": lambda random: forest(600, 6, random, boosted=True, leaves=31),
    "boosting, 4,000 trees, 31 leaves, 40 outputs": lambda random: forest(4000, 40, random, boosted=True, leaves=31),
}
"""What makes a model, by what the table calls it."""


@register(
    "predictor",
    "Cost of a prediction on one core, by kind and size of the model",
    kind="cpu",
    columns={
        "model": "kind and size",
        "inputs": "features",
        "outputs": "candidates",
        "bytes": "of the arrays",
        "batch_us": f"one matrix in a call for {_ROWS:,}, microseconds",
        "call_us": "a call from Python for one matrix, microseconds",
        "cold_call_us": "such a call after the caches were swept, microseconds",
    },
)
def predictor(
    device: Device, progress: Progress, models: Mapping[str, Callable[[_Generator], Model]] | None = None
) -> pd.DataFrame:
    """Measure predictions by random models.

    Parameters
    ----------
    device : Device
        The CPU.
    progress : callable
        Told of every model.
    models : mapping from str to callable, optional
        `MODELS` if not given.

    Returns
    -------
    pandas.DataFrame
        A row for each model.
    """
    chosen = MODELS if models is None else models
    random = np.random.default_rng(0)
    X = random.random((_ROWS, _FEATURES))
    rows = []
    for done, (name, make) in enumerate(chosen.items()):
        progress(done, len(chosen), f"predictor: {name}")
        model = make(random)
        with num_threads(1):
            rows.append(
                {
                    "model": name,
                    "inputs": len(model.inputs),
                    "outputs": len(model.outputs),
                    "bytes": sum(array.nbytes for array in model.arrays.values()),
                    "batch_us": median_us(functools.partial(model.predict, X), 5) / len(X),
                    "call_us": _call_us(model, X),
                    "cold_call_us": _call_us(model, X[:_COLD_ROWS], np.zeros(_CACHES // 8)),
                }
            )
    return pd.DataFrame(rows)


def _call_us(model: Model, X: NDArray[np.float64], sweep: NDArray[np.float64] | None = None) -> float:
    """Return the median time of a call with one row; the caches are swept before each if there is something to."""
    model.predict(X[:1])
    times = []
    for row in X:
        if sweep is not None:
            sweep += 1
        start = time.perf_counter()
        model.predict(row[np.newaxis])
        times.append(time.perf_counter() - start)
    return 1e6 * float(np.median(times))
