"""Profiles of SpMM in half precision: one where column vectors decide, and two that try an order in vain."""

import numpy as np

from warploom import profiles
from warploom.model_inputs import LOSS, PREPARATION_INPUTS, REFERENCE
from warploom.predictor import Model
from warploom.profiles import Profile

PLAIN, CORES = "spmm/none/csr/row_split", "spmm/none/column-vectors/tensor_core"


def save_half_profile(folder, gpu, sizes=None):
    """Write a profile that predicts tensor cores where a vector of 8 rows has more than three nonzeros in the mean.

    `sizes` are those it was trained on, by their names: the least and the most.
    """
    _save(folder, gpu, {PLAIN: 0.0, CORES: -0.3}, {CORES: 1.0}, {PLAIN: 0.0, CORES: 0.0}, sizes or {})


VAIN, SAME_ORDER, OTHER_ORDER = (
    "spmm/community/column-vectors/tensor_core",
    "spmm/community/csr/row_split",
    "spmm/rcm/csr/row_split",
)


def save_order_profile(folder, gpu):
    """Write a profile by which VAIN is worth most.

    For 100 calls on a small matrix OTHER_ORDER comes next, and SAME_ORDER if its order need not be computed.
    """
    scores = {VAIN: 0.0, SAME_ORDER: 0.1, OTHER_ORDER: 0.2, PLAIN: 3.0}
    _save(folder, gpu, scores, {}, {VAIN: 0.0, SAME_ORDER: 0.3, OTHER_ORDER: 0.1, PLAIN: 0.0}, {})


SEARCHED, BY_DEGREE = "spmm/rcm/csr/row_split", "spmm/degree/csr/row_split"


def save_search_profile(folder, gpu):
    """Write a profile by which candidates in the order rcm are worth most, and then those in the order degree."""
    scores = {SEARCHED: 0.0, "spmm/rcm/dcsr/row_split": 0.1, BY_DEGREE: 0.2, PLAIN: 3.0}
    _save(folder, gpu, scores, {}, dict.fromkeys(scores, 0.0), {})


def _save(folder, gpu, scores, of_vectors, milliseconds, sizes):
    """Write a profile of scores, more of them for each vector a nonzero, and of what preparation takes."""
    model = "spmm-float16-row"
    models = {
        f"{model}-warm": linear(("vectors_per_nonzero_8",), {REFERENCE: 0.0, LOSS: 0.0, **scores}, of_vectors),
        f"preparation-{model}": linear(PREPARATION_INPUTS, milliseconds, {}),
    }
    metrics = {"selectors": {f"{model}-warm": {"margin": 0.01, "unsure_loss": 0.2, "sizes": sizes}}}
    profiles.save(folder / "p.safetensors", Profile(gpu, (9, 0), "13.0", models, metrics=metrics))


def linear(inputs, constants, of_first):
    """Return a model whose outputs are constants, and multiples of the first input."""
    weight = np.zeros((1, len(constants), len(inputs)), np.float32)
    for row, name in enumerate(constants):
        weight[0, row, 0] = of_first.get(name, 0.0)
    arrays = {
        "input.mean": np.zeros(len(inputs)),
        "input.scale": np.ones(len(inputs)),
        "layer.0.weight": weight,
        "layer.0.bias": np.array([list(constants.values())], np.float32),
    }
    return Model("network", inputs, tuple(constants), {"activation": "identity", "output": "identity"}, arrays)
