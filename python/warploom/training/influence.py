"""What a selector looks at: which inputs its choices hang on, and how its predictions change with k and size."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom.model_inputs import REFERENCE, expand, model_inputs, roofline_us
from warploom.predictor import Model
from warploom.training.data import Dataset
from warploom.training.evaluate import losses
from warploom.training.selector import predictions
from warploom.training.train import candidates_known

__all__ = ["dependence", "importance"]


def importance(model: Model, dataset: Dataset, *, repeats: int = 3, seed: int = 0) -> pd.DataFrame:
    """Return how much is lost if an input is that of another matrix: permutation importance [1]_.

    Parameters
    ----------
    model : Model
        A selector, such as those of a profile.
    dataset : Dataset
        Matrices that it should not have seen.
    repeats : int
        Permutations of each input, whose losses are averaged.
    seed : int

    Returns
    -------
    pandas.DataFrame
        ``input``, and ``loss_added``: mean of chosen / minimum time with the input permuted, less that without. The
        most important first.

    References
    ----------
    .. [1] Breiman, "Random forests", Machine Learning 45, 2001, section 10.
    """
    random = np.random.default_rng(seed)
    X = model_inputs(dataset.features, dataset.k, model.inputs)
    usual = _mean_loss(model, dataset, X)
    added = []
    for column in range(X.shape[1]):
        changed = []
        for _ in range(repeats):
            mixed = X.copy()
            mixed[:, column] = random.permutation(X[:, column])
            changed.append(_mean_loss(model, dataset, mixed))
        added.append(float(np.mean(changed)) - usual)
    table = pd.DataFrame({"input": model.inputs, "loss_added": added})
    return table.sort_values("loss_added", ascending=False, kind="stable", ignore_index=True)


def dependence(
    model: Model, dataset: Dataset, *, k: Sequence[int] | None = None, scale: Sequence[float] | None = None
) -> pd.DataFrame:
    """Return what is predicted if all matrices had another k, or were so many times as large.

    Parameters
    ----------
    model : Model
    dataset : Dataset
    k : sequence of int, optional
        Columns of B.
    scale : sequence of float, optional
        Factors of rows, columns and nonzeros; lengths of rows stay as they are. One of both is given.

    Returns
    -------
    pandas.DataFrame
        ``k`` or ``scale``; ``time_us``, the geometric mean of the predicted least times; ``chosen``, the candidate that
        is chosen most often, and ``share``, for how many of the rows.
    """
    names = candidates_known(model)
    columns = [model.outputs.index(name) for name in names]
    values: Sequence[float] = scale if scale is not None else list(k or ())
    lines = []
    for value in values:
        changed = _scaled(dataset, value) if scale is not None else _with_k(dataset, int(value))
        predicted = model.predict(model_inputs(changed.features, changed.k, model.inputs))
        ratio = predicted[:, model.outputs.index(REFERENCE)]
        scores = predicted[:, columns]
        least = np.exp(ratio) * roofline_us(changed.features, changed.k, dataset.itemsize)
        time = np.log(least) + expand(scores.min(axis=1))
        chosen, counts = np.unique(scores.argmin(axis=1), return_counts=True)
        most = int(counts.argmax())
        lines.append(
            {
                "k" if scale is None else "scale": value,
                "time_us": float(np.exp(time.mean())),
                "chosen": names[chosen[most]],
                "share": float(counts[most] / len(scores)),
            }
        )
    return pd.DataFrame(lines)


_SIZES = ("spmv_num_rows", "spmv_num_cols", "spmv_nnz")


def _scaled(dataset: Dataset, factor: float) -> Dataset:
    features = dict(dataset.features)
    for name in _SIZES:
        features[name] = features[name] * factor
    features["spmv_density"] = features["spmv_density"] / factor
    return dataclasses.replace(dataset, features=features)


def _with_k(dataset: Dataset, k: int) -> Dataset:
    return dataclasses.replace(dataset, k=np.full(len(dataset), k))


def _mean_loss(model: Model, dataset: Dataset, X: NDArray[np.float64]) -> float:
    chosen = np.asarray(predictions(model, dataset, X).argmin(axis=1), dtype=np.intp)
    return float(np.nanmean(losses(dataset, chosen, merged=False)))
