"""Selection of the row order for SpMM as Mehrabi et al. do it [1]_.

A network with two hidden layers predicts the times of a few techniques from 24 features, and the one with the least
predicted time is chosen. Beside it are the classifier with a softmax, the same network with the features of the matrix
alone, and other topologies; all of them for the four techniques of the paper and for all ten. What the paper leaves
open is noted at the functions.

References
----------
.. [1] Mehrabi, Lee, Chatterjee, Sorin, Lee, O'Connor, "Learning sparse matrix row permutations for efficient SpMM on
   GPU architectures", ISPASS 2021, section V.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom import features, permutations
from warploom.bench.measurements import Measurements
from warploom.predictor import Model
from warploom.training._held_out import HeldOut, complete, fastest, input_matrix
from warploom.training._network import NetworkOptions, fit_classes, fit_times
from warploom.training.data import Dataset, random_splits
from warploom.training.selector import Options, fit, predictions

__all__ = [
    "ALL_TECHNIQUES",
    "CLASSIFIER",
    "FOUR_TECHNIQUES",
    "MATRIX_INPUTS",
    "REGRESSION",
    "SETTING",
    "TOPOLOGIES",
    "RowOrderStudy",
    "TrainedRowOrder",
    "class_weights",
    "row_order_data",
    "study",
    "train",
]

SETTING = "spmm/float32/column/k=rows"
"""Single precision, B and C in column-major order and as large as A (section IV)."""

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
        for name in permutations.names()
        if name not in ("none", "lpt", "warp-aware")
    },
}
"""The original order and the ten techniques of table I."""

MATRIX_INPUTS = features.names("spmm")[:9]
"""The part "Matrix" of table II: what says nothing about load balance and data locality."""

REGRESSION = NetworkOptions()
CLASSIFIER = NetworkOptions(l2=1e-3, epochs=100)
BOOSTING = Options(iterations=400, rate=0.05, leaves=14, share=0.6)
"""Of warploom's own selector (`warploom.training.selector`), for comparison."""

TOPOLOGIES: tuple[tuple[int, ...], ...] = (
    (16,),
    (32,),
    (64,),
    (128,),
    (32, 16),
    (64, 32),
    (128, 64),
    (64, 32, 16),
    (128, 64, 32),
)
"""Of the study of topologies: neurons of one, two and three hidden layers."""

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, eq=False)
class RowOrderStudy:
    """How well row orders are selected on matrices that were held out.

    Attributes
    ----------
    cache : str
        State of the cache that the times are of.
    matrices : int
        With the times of all classes.
    left_out : int
        Matrices without: the time limit of the sweep came first.
    populations : pandas.DataFrame
        Training matrices of each split by fastest class: ``split``, ``class``, ``matrices``, ``share``, ``weight``.
    regression : HeldOut
        Choices by the least of the predicted times.
    predicted : pandas.DataFrame
        A row for each row of ``regression.rows`` and class: ``matrix``, ``split``, ``class``, ``time_us``,
        ``predicted_us``, ``error`` = abs(predicted / time - 1).
    classifier : HeldOut
        Choices by the classifier with a softmax.
    boosted : HeldOut
        Choices by boosted trees, as warploom's own selector has them: not the paper's.
    matrix_only : HeldOut
        Choices by the regression from `MATRIX_INPUTS` alone.
    always : pandas.DataFrame
        What it would cost to take one class always: ``class``, ``mean_loss``, ``merged_mean_loss``, ``speedup``.
    topologies : pandas.DataFrame
        ``topology`` such as ``(64,32)``, ``layers``, ``parameters``, and of the regression with it ``mean_loss`` and
        ``merged_mean_loss`` with the ends of their bootstrap intervals, ``gain_share``, ``merged_gain_share``.
    """

    cache: str
    matrices: int
    left_out: int
    populations: pd.DataFrame
    regression: HeldOut
    predicted: pd.DataFrame
    classifier: HeldOut
    boosted: HeldOut
    matrix_only: HeldOut
    always: pd.DataFrame
    topologies: pd.DataFrame

    def error_distribution(self, percent: Sequence[float] = tuple(range(51))) -> pd.DataFrame:
        """Return the share of the predicted times of each class whose error is at most so many per cent.

        Parameters
        ----------
        percent : sequence of float

        Returns
        -------
        pandas.DataFrame
            Index: per cent. A column for each class, and ``all``.
        """
        groups = {str(name): part for name, part in self.predicted.groupby("class", sort=False)} | {
            "all": self.predicted
        }
        limits = np.asarray(percent, dtype=np.float64)
        shares = {
            name: np.searchsorted(np.sort(100 * part["error"]), limits, side="right") / len(part)
            for name, part in groups.items()
        }
        return pd.DataFrame(shares, index=pd.Index(limits, name="percent"))

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as JSON can hold them."""
        return {
            "cache": self.cache,
            "matrices": self.matrices,
            "left_out": self.left_out,
            "error_median": float(f"{self.predicted['error'].median():.5g}"),
            "error_within_10": float(f"{(self.predicted['error'] <= 0.1).mean():.5g}"),
            **{name: getattr(self, name).as_dict() for name in ("regression", "classifier", "boosted", "matrix_only")},
        }


@dataclasses.dataclass(frozen=True, eq=False)
class TrainedRowOrder:
    """Models for a profile, and how good models like them are on matrices that were held out.

    Attributes
    ----------
    models : dict from str to Model
        ``row-order-TECHNIQUES-CACHE-times``, whose outputs are microseconds, and ``...-classes``, whose outputs are
        probabilities; TECHNIQUES is ``four`` or ``ten``. Inputs are the 24 features, outputs are candidates.
    studies : dict from str to RowOrderStudy
        By ``TECHNIQUES-CACHE``.
    """

    models: dict[str, Model]
    studies: dict[str, RowOrderStudy]


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
    return complete(Dataset.of(measurements, SETTING, cache, needed=wanted), wanted)


def class_weights(classes: NDArray[np.intp], number: int) -> NDArray[np.float64]:
    """Return weights inversely proportional to the population of each class (section V.C).

    Parameters
    ----------
    classes : ndarray of int, shape (n,)
        Class of each training matrix.
    number : int
        Of classes.

    Returns
    -------
    ndarray of float64, shape (number,)
        1 for classes of n / number matrices; 0 for classes without.
    """
    population = np.bincount(classes, minlength=number)
    return np.where(population > 0, len(classes) / (number * np.maximum(population, 1)), 0.0)


def study(
    dataset: Dataset,
    techniques: Mapping[str, str] = FOUR_TECHNIQUES,
    *,
    left_out: int = 0,
    seeds: Sequence[int] = (0, 1, 2, 3),
    regression: NetworkOptions = REGRESSION,
    classifier: NetworkOptions = CLASSIFIER,
    boosting: Options = BOOSTING,
    topologies: Iterable[tuple[int, ...]] = TOPOLOGIES,
    samples: int = 1000,
) -> RowOrderStudy:
    """Train on 80 % of the matrices, choose for the others, several times.

    Parameters
    ----------
    dataset : Dataset
        From `row_order_data`, with the same techniques.
    techniques : mapping from str to str
        The first is what speedups are over.
    left_out : int
        From `row_order_data`.
    seeds : sequence of int
        One for each split. The paper has one split; of small test sets, several tell more.
    regression, classifier : NetworkOptions
    boosting : Options
    topologies : iterable of tuple of int
        Hidden layers to compare, trained as `regression` otherwise.
    samples : int
        Bootstrap samples for the intervals.

    Returns
    -------
    RowOrderStudy
    """
    runs = _Runs(dataset, tuple(techniques), seeds, samples)
    every = features.names("spmm")
    scores = runs.times(every, regression)
    classes = runs.classes(every, classifier)
    by_matrix = runs.times(MATRIX_INPUTS, regression)
    rows = []
    for hidden in topologies:
        same = hidden == regression.hidden
        found = runs.held_out(
            scores if same else runs.times(every, dataclasses.replace(regression, hidden=hidden)), best=np.argmin
        )
        rows.append(_topology(hidden, found, len(every), len(runs.names)))
        _log.info("topology %s: mean loss %.2f %%", rows[-1]["topology"], 100 * rows[-1]["mean_loss"])
    return RowOrderStudy(
        cache=dataset.cache,
        matrices=len(dataset),
        left_out=left_out,
        populations=runs.populations(),
        regression=runs.held_out(scores, best=np.argmin),
        predicted=runs.predicted(scores),
        classifier=runs.held_out(classes, best=np.argmax),
        boosted=runs.held_out(runs.boosted(boosting), best=np.argmin),
        matrix_only=runs.held_out(by_matrix, best=np.argmin),
        always=runs.always(),
        topologies=pd.DataFrame(rows),
    )


def train(
    measurements: Measurements,
    *,
    caches: Iterable[str] = ("warm",),
    techniques: Iterable[str] = ("four", "ten"),
    studies: bool = True,
    seeds: Sequence[int] = (0, 1, 2, 3),
    topologies: Iterable[tuple[int, ...]] = TOPOLOGIES,
    regression: NetworkOptions = REGRESSION,
    classifier: NetworkOptions = CLASSIFIER,
    samples: int = 1000,
) -> TrainedRowOrder:
    """Train the models of the paper on all matrices, and judge models like them on held-out ones.

    Parameters
    ----------
    measurements : Measurements
    caches : iterable of str
    techniques : iterable of {"four", "ten"}
    studies : bool
        Whether to judge, which takes most of the time.
    seeds, topologies, regression, classifier, samples
        See `study`. Topologies are compared for the four techniques only.

    Returns
    -------
    TrainedRowOrder
        Progress is logged.

    Raises
    ------
    ParameterError
        There are no times of the techniques.
    """
    known = {"four": FOUR_TECHNIQUES, "ten": ALL_TECHNIQUES}
    models: dict[str, Model] = {}
    found: dict[str, RowOrderStudy] = {}
    for cache in caches:
        for number in techniques:
            chosen = known[number]
            dataset, left_out = row_order_data(measurements, cache, chosen)
            name = f"row-order-{number}-{cache}"
            everything = np.arange(len(dataset))
            runs = _Runs(dataset, tuple(chosen), (), samples)
            models[f"{name}-times"] = runs.fit_times(everything, features.names("spmm"), regression)
            models[f"{name}-classes"] = runs.fit_classes(everything, features.names("spmm"), classifier)
            _log.info("%s: trained on %d matrices, %d left out", name, len(dataset), left_out)
            if studies:
                found[f"{number}-{cache}"] = study(
                    dataset,
                    chosen,
                    left_out=left_out,
                    seeds=seeds,
                    regression=regression,
                    classifier=classifier,
                    topologies=topologies if number == "four" else (),
                    samples=samples,
                )
                _log.info("%s: %s", name, found[f"{number}-{cache}"].as_dict())
    return TrainedRowOrder(models, found)


class _Runs:
    """The same splits for all models that are compared."""

    def __init__(self, dataset: Dataset, names: tuple[str, ...], seeds: Sequence[int], samples: int) -> None:
        self.dataset = dataset
        self.names = names
        self.samples = samples
        self.splits = list(random_splits(dataset, 0.2, seeds))
        self.tests = [dataset.rows(test) for _, test in self.splits]
        self.optimal = fastest(dataset)

    def fit_times(self, rows: NDArray[np.intp], inputs: Sequence[str], options: NetworkOptions) -> Model:
        X = input_matrix(self.dataset, "spmm", inputs)[rows]
        weights = self.weights(rows)[self.optimal[rows]]
        return fit_times(X, self.dataset.times[rows], weights, inputs, self.dataset.candidates, options)

    def fit_classes(self, rows: NDArray[np.intp], inputs: Sequence[str], options: NetworkOptions) -> Model:
        X = input_matrix(self.dataset, "spmm", inputs)[rows]
        classes = self.optimal[rows]
        return fit_classes(X, classes, self.weights(rows)[classes], inputs, self.dataset.candidates, options)

    def weights(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        return class_weights(self.optimal[rows], len(self.names))

    def times(self, inputs: Sequence[str], options: NetworkOptions) -> list[NDArray[np.float64]]:
        return [self.predict(self.fit_times(rows, inputs, options), test) for rows, test in self.splits]

    def classes(self, inputs: Sequence[str], options: NetworkOptions) -> list[NDArray[np.float64]]:
        return [self.predict(self.fit_classes(rows, inputs, options), test) for rows, test in self.splits]

    def boosted(self, options: Options) -> list[NDArray[np.float64]]:
        of_test = zip(self.splits, self.tests, strict=True)
        candidates = self.dataset.candidates
        return [predictions(fit(self.dataset.rows(rows), options, candidates), test) for (rows, _), test in of_test]

    def predict(self, model: Model, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        return model.predict(input_matrix(self.dataset, "spmm", model.inputs)[rows])

    def held_out(self, scores: Sequence[NDArray[np.float64]], best: Any) -> HeldOut:
        chosen = [best(values, axis=1) for values in scores]
        return HeldOut.of(self.tests, chosen, self.names, self.names[0], samples=self.samples)

    def predicted(self, scores: Sequence[NDArray[np.float64]]) -> pd.DataFrame:
        parts = []
        for split, (test, values) in enumerate(zip(self.tests, scores, strict=True)):
            for column, name in enumerate(self.names):
                times = test.times[:, column]
                part = {"matrix": test.names, "split": split, "class": name, "time_us": times}
                part |= {"predicted_us": values[:, column], "error": np.abs(values[:, column] / times - 1)}
                parts.append(pd.DataFrame(part))
        return pd.concat(parts, ignore_index=True)

    def populations(self) -> pd.DataFrame:
        parts = []
        for split, (rows, _) in enumerate(self.splits):
            counts = np.bincount(self.optimal[rows], minlength=len(self.names))
            part = {"split": split, "class": self.names, "matrices": counts, "share": counts / len(rows)}
            parts.append(pd.DataFrame(part | {"weight": self.weights(rows)}))
        return pd.concat(parts, ignore_index=True)

    def always(self) -> pd.DataFrame:
        rows = []
        for column, name in enumerate(self.names):
            chosen = [np.full(len(test), column) for test in self.tests]
            table = HeldOut.of(self.tests, chosen, self.names, self.names[0], samples=1).figures
            loss = table.loc["mean_loss"]
            speedup = table.loc["speedup", "raw"]
            rows.append(
                {"class": name, "mean_loss": loss["raw"], "merged_mean_loss": loss["merged"], "speedup": speedup}
            )
        return pd.DataFrame(rows)


def _topology(hidden: tuple[int, ...], found: HeldOut, inputs: int, outputs: int) -> dict[str, Any]:
    widths = [inputs, *hidden, outputs]
    loss, gain = found.figures.loc["mean_loss"], found.figures.loc["gain_share"]
    return {
        "topology": f"({','.join(map(str, hidden))})",
        "layers": len(hidden),
        "parameters": sum((a + 1) * b for a, b in itertools.pairwise(widths)),
        "mean_loss": loss["raw"],
        "mean_loss_low": loss["raw_low"],
        "mean_loss_high": loss["raw_high"],
        "merged_mean_loss": loss["merged"],
        "merged_mean_loss_low": loss["merged_low"],
        "merged_mean_loss_high": loss["merged_high"],
        "gain_share": gain["raw"],
        "merged_gain_share": gain["merged"],
    }
