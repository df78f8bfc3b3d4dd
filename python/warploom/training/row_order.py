"""Selection of the row order for SpMM as Mehrabi et al. do it [1]_.

A network with two hidden layers predicts the times of a few techniques from 24 features, and the one with the least
predicted time is chosen. Beside it is the classifier with a softmax; both for the four techniques of the paper and for
all ten. What the paper leaves open is noted at the functions.

References
----------
.. [1] Mehrabi, Lee, Chatterjee, Sorin, Lee, O'Connor, "Learning sparse matrix row permutations for efficient SpMM on
   GPU architectures", ISPASS 2021, section V.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from warploom import features, permutations
from warploom.bench.measurements import Measurements
from warploom.bench.oracle import PAPER_SPMM
from warploom.predictor import Model
from warploom.training.data import Dataset, complete, fastest, input_matrix
from warploom.training.network import NetworkOptions, fit_classes, fit_times

__all__ = [
    "ALL_TECHNIQUES",
    "CLASSIFIER",
    "FOUR_TECHNIQUES",
    "REGRESSION",
    "class_weights",
    "row_order_data",
    "train",
    "train_classifier",
    "train_regression",
]

FOUR_TECHNIQUES: Mapping[str, str] = {
    "CSR": "spmm/none/csr/c_stationary",
    "DCSR": "spmm/none/dcsr/c_stationary",
    "LPT": "spmm/lpt/csr/c_stationary",
    "warp-aware": "spmm/warp-aware/csr/c_stationary",
}
"""The classes of section V.B and their candidates; the first is the original order."""

ALL_TECHNIQUES: Mapping[str, str] = {
    **FOUR_TECHNIQUES,
    **{
        name: f"spmm/{name}/csr/c_stationary"
        for name in permutations.paper_names()
        if name not in ("none", "lpt", "warp-aware")
    },
}
"""The original order and the ten techniques of table I."""

REGRESSION = NetworkOptions()
CLASSIFIER = NetworkOptions(l2=1e-3, epochs=100)
_log = logging.getLogger(__name__)


def row_order_data(
    measurements: Measurements, cache: str = "warm", techniques: Mapping[str, str] = FOUR_TECHNIQUES
) -> tuple[Dataset, int]:
    """Take the times of some techniques.

    Parameters
    ----------
    measurements : Measurements
    cache : {"warm", "cold"}
        The paper averages runs that follow each other, which is ``warm``.
    techniques : mapping from str to str
        Names of the classes and their candidates.

    Returns
    -------
    dataset : Dataset
        Matrices with the times of all techniques.
    left_out : int
        Matrices without.

    Raises
    ------
    ParameterError
        There are no times of them.
    """
    wanted = list(techniques.values())
    return complete(Dataset.of(measurements, PAPER_SPMM, cache, needed=wanted), wanted)


def class_weights(classes: NDArray[np.intp], number: int) -> NDArray[np.float64]:
    """Return weights inversely proportional to the population of each class (section V.C).

    Parameters
    ----------
    classes : ndarray of int, shape (n,)
        Class of each training matrix.
    number : int
        Number of classes.

    Returns
    -------
    ndarray of float64, shape (number,)
        1 for classes of n / number matrices; 0 for classes without.
    """
    population = np.bincount(classes, minlength=number)
    return np.where(population > 0, len(classes) / (number * np.maximum(population, 1)), 0.0)


def train_regression(
    dataset: Dataset, options: NetworkOptions = REGRESSION, inputs: Sequence[str] | None = None
) -> Model:
    """Train the network that predicts the time of each technique.

    Parameters
    ----------
    dataset : Dataset
        From `row_order_data`, or the rows of it to train on.
    options : NetworkOptions
    inputs : sequence of str, optional
        Features for SpMM; all 24 if not given.

    Returns
    -------
    Model
        Outputs are microseconds of the candidates. Matrices count for the weight of their fastest class.
    """
    inputs = features.names("spmm") if inputs is None else inputs
    classes = fastest(dataset)
    weights = class_weights(classes, len(dataset.candidates))[classes]
    return fit_times(input_matrix(dataset, "spmm", inputs), dataset.times, weights, inputs, dataset.candidates, options)


def train_classifier(dataset: Dataset, options: NetworkOptions = CLASSIFIER) -> Model:
    """Train the network that ends in a softmax.

    Parameters
    ----------
    dataset : Dataset
        From `row_order_data`, or the rows of it to train on.
    options : NetworkOptions

    Returns
    -------
    Model
        Outputs are probabilities of the candidates. Matrices count for the weight of their fastest class.
    """
    inputs = features.names("spmm")
    classes = fastest(dataset)
    weights = class_weights(classes, len(dataset.candidates))[classes]
    return fit_classes(input_matrix(dataset, "spmm", inputs), classes, weights, inputs, dataset.candidates, options)


def train(
    measurements: Measurements,
    *,
    caches: Iterable[str] = ("warm",),
    techniques: Iterable[str] = ("four", "ten"),
    regression: NetworkOptions = REGRESSION,
    classifier: NetworkOptions = CLASSIFIER,
) -> dict[str, Model]:
    """Train the networks of the paper on all matrices, for a profile.

    Parameters
    ----------
    measurements : Measurements
    caches : iterable of str
    techniques : iterable of {"four", "ten"}
    regression, classifier : NetworkOptions

    Returns
    -------
    dict from str to Model
        ``row-order-TECHNIQUES-CACHE-times``, whose outputs are microseconds, and ``...-classes``, whose outputs are
        probabilities; TECHNIQUES is ``four`` or ``ten``. Inputs are the 24 features, outputs are candidates. Progress
        is logged.

    Raises
    ------
    ParameterError
        There are no times of the techniques.
    """
    known = {"four": FOUR_TECHNIQUES, "ten": ALL_TECHNIQUES}
    models: dict[str, Model] = {}
    for cache in caches:
        for number in techniques:
            dataset, left_out = row_order_data(measurements, cache, known[number])
            name = f"row-order-{number}-{cache}"
            models[f"{name}-times"] = train_regression(dataset, regression)
            models[f"{name}-classes"] = train_classifier(dataset, classifier)
            _log.info("%s: trained on %d matrices, %d left out", name, len(dataset), left_out)
    return models
