"""The preparation time of a candidate, as a sum of terms in the size of the matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from warploom.model_inputs import PREPARATION_INPUTS, preparation_inputs
from warploom.predictor import Model
from warploom.training.data import Dataset

__all__ = ["fit_preparation", "relative_errors"]

_Array = NDArray[np.float64]
_HUBER = 0.3
"""Relative errors beyond it count less: a preparation that the system interrupted is an outlier."""


def fit_preparation(datasets: Sequence[Dataset], candidates: Sequence[str]) -> Model:
    """Fit the milliseconds of preparation of each candidate.

    Parameters
    ----------
    datasets : sequence of Dataset
        Of one operation, value type and layout.
    candidates : sequence of str
        Each occurs in at least one of the data sets.

    Returns
    -------
    Model
        Linear in `warploom.model_inputs.preparation_inputs`, with coefficients of 0 or more, fitted to relative errors.
    """
    terms = np.concatenate([preparation_inputs(dataset.features) for dataset in datasets])
    weights = np.zeros((len(candidates), len(PREPARATION_INPUTS)))
    for row, name in enumerate(candidates):
        milliseconds = np.concatenate([_preparation(dataset, name) for dataset in datasets])
        known = np.isfinite(milliseconds) & (milliseconds > 0)
        weights[row] = _fit(terms[known], milliseconds[known])
    arrays: dict[str, NDArray[Any]] = {
        "input.mean": np.zeros(len(PREPARATION_INPUTS)),
        "input.scale": np.ones(len(PREPARATION_INPUTS)),
        "layer.0.weight": weights[np.newaxis].astype(np.float32),
        "layer.0.bias": np.zeros((1, len(candidates)), np.float32),
    }
    settings = {"activation": "identity", "output": "identity"}
    return Model("network", PREPARATION_INPUTS, tuple(candidates), settings, arrays)


def relative_errors(model: Model, dataset: Dataset) -> _Array:
    """Return abs(log(predicted / measured)) of each row and candidate of a model; NaN where nothing was measured."""
    measured = np.stack([_preparation(dataset, name) for name in model.outputs], axis=1)
    predicted = model.predict(preparation_inputs(dataset.features))
    with np.errstate(divide="ignore"):
        return np.asarray(np.abs(np.log(np.maximum(predicted, 1e-6) / np.where(measured > 0, measured, np.nan))))


def _preparation(dataset: Dataset, candidate: str) -> _Array:
    if candidate not in dataset.candidates:
        return np.full(len(dataset), np.nan)
    return dataset.preparation_ms[:, dataset.candidates.index(candidate)]


def _fit(terms: _Array, milliseconds: _Array, rounds: int = 5) -> _Array:
    """Fit non-negative coefficients to relative errors, by least squares whose weights follow the errors."""
    if not len(milliseconds):
        return np.zeros(terms.shape[1])
    relative = terms / milliseconds[:, np.newaxis]
    weight = np.ones(len(milliseconds))
    for _ in range(rounds):
        found, _ = scipy.optimize.nnls(relative * weight[:, np.newaxis], weight)
        error = np.abs(relative @ found - 1)
        weight = np.sqrt(_HUBER / np.maximum(error, _HUBER))
    return np.asarray(found)
