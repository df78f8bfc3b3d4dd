from __future__ import annotations

import numpy as np
import pytest

from warploom._device import Device
from warploom.experiments import find
from warploom.experiments.predictor import MODELS, forest, network, predictor


@pytest.fixture
def random():
    return np.random.default_rng(0)


def walked(model, x):
    """Return the sums of the leaves that a row ends in, tree by tree."""
    arrays = model.arrays
    found = arrays["base"].copy()
    count = len(arrays["tree.offset"]) - 1
    for tree in range(count):
        first, node = arrays["tree.offset"][tree], 0
        while (feature := arrays["node.feature"][first + node]) >= 0:
            below = x[feature] <= arrays["node.threshold"][first + node]
            node = arrays["node.left" if below else "node.right"][first + node]
        leaf = arrays["leaf.value"][arrays["node.left"][first + node]]
        if "tree.score" in arrays:
            found[arrays["tree.score"][tree]] += leaf[0]
        else:
            found += leaf / count
    return found


@pytest.mark.parametrize("boosted", [False, True])
def test_trees_are_trees(random, boosted):
    model = forest(30, 3, random, boosted=boosted, samples=200, depth=6)
    X = random.random((20, 24))
    np.testing.assert_allclose(model.predict(X), [walked(model, x) for x in X], rtol=1e-5, atol=1e-9)


def test_bounds_of_trees(random):
    leaves = forest(5, 1, random, boosted=True, leaves=31).arrays
    assert (np.diff(leaves["tree.offset"]) == 2 * 31 - 1).all()
    shallow = forest(1, 2, random, samples=10**6, depth=3).arrays
    assert shallow["tree.offset"][-1] == 2**4 - 1
    full = forest(1, 2, random, samples=40).arrays
    assert (full["node.feature"] == -1).sum() == 40


def test_networks_have_the_layers_of_the_paper(random):
    model = network(4, 2, random)
    shapes = [model.arrays[f"layer.{i}.weight"].shape for i in range(3)]
    assert shapes == [(2, 64, 24), (2, 32, 64), (2, 4, 32)]
    assert len(model.inputs) == 24


def test_models_are_measured_one_after_the_other():
    names = ["network 24-64-32-4", "boosting, 500 trees, 31 leaves, 1 output"]
    seen = []
    table = predictor(Device("cpu"), lambda *step: seen.append(step[:2]), {name: MODELS[name] for name in names})
    assert seen == [(0, 2), (1, 2)]
    assert table["model"].tolist() == names
    assert list(table.columns) == list(find("predictor").columns)
    assert table["outputs"].tolist() == [4, 1]
    assert (table[["batch_us", "call_us", "cold_call_us"]] > 0).all(axis=None)
