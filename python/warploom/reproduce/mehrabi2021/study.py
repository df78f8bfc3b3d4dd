"""Row orders that models choose for held-out matrices, as in section V of Mehrabi et al. (2021).

Beside the network that predicts times are the classifier with a softmax, the same network with the features of the
matrix alone, other topologies, and boosted trees as warploom's own selector has them.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom import features
from warploom.predictor import Model
from warploom.reproduce.held_out import HeldOut
from warploom.training.data import Dataset, fastest, input_matrix, random_splits
from warploom.training.network import NetworkOptions
from warploom.training.row_order import (
    CLASSIFIER,
    FOUR_TECHNIQUES,
    REGRESSION,
    class_weights,
    train_classifier,
    train_regression,
)
from warploom.training.selector import Options, fit, predictions

__all__ = ["MATRIX_INPUTS", "TOPOLOGIES", "RowOrderStudy", "study"]

MATRIX_INPUTS = features.names("spmm")[:9]
"""The part "Matrix" of table II: the features that do not describe load balance and data locality."""

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
    names : tuple of str
        Matrices with the times of all classes.
    left_out : int
        Matrices without: the time limit of the sweep was reached.
    populations : pandas.DataFrame
        Training matrices of each split by fastest class: ``split``, ``class``, ``matrices``, ``share``, ``weight``.
    regression : HeldOut
        Choices by the minimum of the predicted times.
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
    names: tuple[str, ...]
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
        """Return the share of the predicted times of each class whose error is at most each of these percentages.

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
        One for each split. The paper has one split; with small test sets, several are more reliable.
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
    classes = runs.classes(classifier)
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
        names=tuple(map(str, dataset.names)),
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


class _Runs:
    """The same splits for all models that are compared."""

    def __init__(self, dataset: Dataset, names: tuple[str, ...], seeds: Sequence[int], samples: int) -> None:
        self.dataset = dataset
        self.names = names
        self.samples = samples
        self.splits = list(random_splits(dataset, 0.2, seeds))
        self.tests = [dataset.rows(test) for _, test in self.splits]
        self.optimal = fastest(dataset)

    def times(self, inputs: Sequence[str], options: NetworkOptions) -> list[NDArray[np.float64]]:
        return self._predicted(lambda part: train_regression(part, options, inputs))

    def classes(self, options: NetworkOptions) -> list[NDArray[np.float64]]:
        return self._predicted(lambda part: train_classifier(part, options))

    def _predicted(self, train: Callable[[Dataset], Model]) -> list[NDArray[np.float64]]:
        models = [train(self.dataset.rows(rows)) for rows, _ in self.splits]
        of_test = zip(models, self.tests, strict=True)
        return [model.predict(input_matrix(test, "spmm", model.inputs)) for model, test in of_test]

    def boosted(self, options: Options) -> list[NDArray[np.float64]]:
        of_test = zip(self.splits, self.tests, strict=True)
        candidates = self.dataset.candidates
        return [predictions(fit(self.dataset.rows(rows), options, candidates), test) for (rows, _), test in of_test]

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
            parts.append(pd.DataFrame(part | {"weight": class_weights(self.optimal[rows], len(self.names))}))
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
