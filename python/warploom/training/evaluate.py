"""How good choices among candidates are: against the oracle, the vendor, and any baseline.

An oracle takes the fastest candidate of each matrix. Near-ties of the fastest one, within the
repeatability of the measurements, count as the fastest, except where a score says otherwise. Besides the shares and
losses of Mehrabi et al. [1]_ there are PLUB and PGO of Gao et al. [2]_ (equations 4 and 5).

References
----------
.. [1] Mehrabi, Lee, Chatterjee, Sorin, Lee, O'Connor, "Learning sparse matrix row permutations for efficient SpMM on
   GPU architectures", ISPASS 2021, section VI.
.. [2] Gao, Ji, Liu, Wang, Shi, "Revisiting thread configuration of SpMV kernels on GPU: A machine learning based
   approach", Journal of Parallel and Distributed Computing, 2024, section 5.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from warploom.errors import ParameterError, ShapeError
from warploom.training.data import Dataset

__all__ = ["SLOWER", "Score", "Scores", "in_brief", "losses", "score"]

SLOWER = 0.98
"""A choice with less than this share of the vendor's speed counts as harmful."""

_Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Score:
    """A figure with the interval that bootstrap samples of the matrices give it."""

    value: float
    low: float
    high: float

    def as_list(self) -> list[float]:
        """Return the figure and both ends of the interval."""
        return [self.value, self.low, self.high]


@dataclasses.dataclass(frozen=True)
class Scores:
    """All figures of a set of choices.

    Attributes
    ----------
    count : int
        Rows that count: those whose chosen time is known.
    unknown : int
        Rows whose chosen candidate was not measured. They are left out.
    values : dict from str to Score
        ``oracle_share``: geometric mean of best / chosen.
        ``mean_loss``, ``loss_90``, ``loss_95``, ``loss_99``, ``worst_loss``: mean, percentiles and maximum of
        chosen / best - 1.
        ``accuracy``: share of the rows whose choice is the fastest, near-ties merged; ``strict_accuracy``: not merged.
        ``plub``: mean of chosen / best - 1 in per cent, near-ties not merged, as Gao et al. define it.
        ``slower_than_vendor``, ``slower_than_default``: share of the rows with less than 0.98 of the speed of the
        vendor's best candidate, or of its default one.
        ``speed_over_vendor``, ``speed_over_default``: geometric mean of the vendor's time / chosen.
        With a baseline: ``speedup`` and ``oracle_speedup``, the arithmetic means over rows that Mehrabi et al. report;
        ``gain_share`` = (speedup - 1) / (oracle_speedup - 1); ``speedup_share`` = speedup / oracle_speedup; and
        ``pgo``, mean of baseline / chosen - 1 in per cent. Near-ties are not merged in the speedups.
    """

    count: int
    unknown: int
    values: dict[str, Score]

    def __getitem__(self, name: str) -> Score:
        """Return one of the figures."""
        return self.values[name]

    def as_dict(self) -> dict[str, object]:
        """Return the figures as JSON can hold them; those that are not finite are left out."""
        finite = {name: score for name, score in self.values.items() if np.isfinite(score.as_list()).all()}
        return {
            "rows": self.count,
            "unknown": self.unknown,
            **{name: [float(f"{v:.5g}") for v in score.as_list()] for name, score in finite.items()},
        }


def losses(dataset: Dataset, chosen: NDArray[np.intp], *, merged: bool = True) -> _Array:
    """Return chosen / best - 1 of each row.

    Parameters
    ----------
    dataset : Dataset
    chosen : ndarray of int, shape (n,)
        Column of the candidate chosen for each row.
    merged : bool
        Whether choices within the row's tolerance have no loss.

    Returns
    -------
    ndarray of float64, shape (n,)
        NaN where the chosen candidate was not measured.

    Raises
    ------
    ShapeError
        `chosen` has another length.
    ParameterError
        A chosen column does not exist, or the candidate cannot run on the matrix; ``position`` is the row.
    """
    ratio = _chosen_times(dataset, chosen) / dataset.best
    if merged:
        ratio = np.where(np.log(ratio) <= dataset.tolerance, 1.0, ratio)
    return np.asarray(ratio - 1)


def score(
    dataset: Dataset,
    chosen: NDArray[np.intp],
    baseline: _Array | None = None,
    *,
    samples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Scores:
    """Compute all figures of a set of choices.

    Parameters
    ----------
    dataset : Dataset
        The rows that the choices are for, with all candidates that the oracle may take.
    chosen : ndarray of int, shape (n,)
        Column of the candidate chosen for each row.
    baseline : ndarray of float64, shape (n,), optional
        Times to compare with, such as ``dataset.times_of(...)``; rows where they are NaN do not count for these
        figures.
    samples : int
        Bootstrap samples. They are drawn from the groups of the data set, since rows of one matrix are not independent.
    confidence : float
        Confidence level of the intervals.
    seed : int

    Returns
    -------
    Scores

    Raises
    ------
    ShapeError, ParameterError
        See `losses`; or no chosen time is known.
    """
    times = _chosen_times(dataset, chosen)
    known = np.isfinite(times)
    if not known.any():
        raise ParameterError("no chosen candidate was measured", argument="chosen")
    kept = dataset.rows(known)
    columns = _columns(kept, chosen[known], times[known], None if baseline is None else baseline[known])
    _, groups = np.unique(kept.groups, return_inverse=True)
    draws = _draws(groups, samples, seed)
    tails = (50 * (1 - confidence), 50 * (1 + confidence))
    values = {}
    for name, figure in _FIGURES.items():
        if figure.needs not in columns:
            continue
        point = figure.of(columns, np.arange(len(kept)))
        spread = [figure.of(columns, rows) for rows in draws]
        low, high = np.nanpercentile(spread, tails) if np.isfinite(spread).any() else (np.nan, np.nan)
        values[name] = Score(point, float(low), float(high))
    return Scores(int(known.sum()), int((~known).sum()), values)


def in_brief(dataset: Dataset, chosen: NDArray[np.intp]) -> dict[str, object]:
    """Return some figures of `score`, rounded: ``rows``, ``oracle_share`` and ``slower_than_vendor``.

    Parameters
    ----------
    dataset : Dataset
    chosen : ndarray of intp, shape (n,)
        The column of the candidate chosen for each row.
    """
    figures = score(dataset, chosen, samples=1)
    return {
        "rows": figures.count,
        "oracle_share": round(figures["oracle_share"].value, 4),
        "slower_than_vendor": round(figures["slower_than_vendor"].value, 4),
    }


@dataclasses.dataclass(frozen=True)
class _Figure:
    """A figure of some rows of the columns."""

    needs: str
    """The column without which there is no such figure."""
    of: Callable[[Mapping[str, _Array], NDArray[np.intp]], float]


def _mean(name: str, transform: Callable[[_Array], _Array] = np.asarray) -> _Figure:
    return _Figure(name, lambda columns, rows: _finite_mean(transform(columns[name][rows])))


def _percentile(name: str, percent: float) -> _Figure:
    return _Figure(name, lambda columns, rows: float(np.percentile(columns[name][rows], percent)))


def _geometric(name: str) -> _Figure:
    return _Figure(name, lambda columns, rows: float(np.exp(_finite_mean(np.log(columns[name][rows])))))


def _below(name: str) -> _Figure:
    def share(columns: Mapping[str, _Array], rows: NDArray[np.intp]) -> float:
        values = columns[name][rows]
        return _finite_mean(np.where(np.isfinite(values), values < SLOWER, np.nan))

    return _Figure(name, share)


def _of_means(combine: Callable[[float, float], float]) -> _Figure:
    def value(columns: Mapping[str, _Array], rows: NDArray[np.intp]) -> float:
        return combine(_finite_mean(columns["speedup"][rows]), _finite_mean(columns["oracle_speedup"][rows]))

    return _Figure("speedup", value)


_FIGURES = {
    "oracle_share": _geometric("share"),
    "mean_loss": _mean("loss"),
    **{f"loss_{percent}": _percentile("loss", percent) for percent in (90, 95, 99)},
    "worst_loss": _percentile("loss", 100),
    "accuracy": _mean("near"),
    "strict_accuracy": _mean("fastest"),
    "plub": _mean("strict_loss", lambda loss: 100 * loss),
    "slower_than_vendor": _below("vendor_best"),
    "slower_than_default": _below("vendor_default"),
    "speed_over_vendor": _geometric("vendor_best"),
    "speed_over_default": _geometric("vendor_default"),
    "speedup": _mean("speedup"),
    "oracle_speedup": _mean("oracle_speedup"),
    "gain_share": _of_means(lambda ours, best: (ours - 1) / (best - 1) if best != 1 else float("nan")),
    "speedup_share": _of_means(lambda ours, best: ours / best),
    "pgo": _mean("speedup", lambda speedup: 100 * (speedup - 1)),
}


def _columns(
    dataset: Dataset, chosen: NDArray[np.intp], times: _Array, baseline: _Array | None
) -> dict[str, NDArray[np.float64]]:
    loss, strict = losses(dataset, chosen), losses(dataset, chosen, merged=False)
    columns = {
        "loss": loss,
        "share": 1 / (1 + loss),
        "near": (loss == 0).astype(np.float64),
        "fastest": (strict == 0).astype(np.float64),
        "strict_loss": strict,
        "vendor_best": dataset.vendor_best / times,
        "vendor_default": dataset.vendor_default / times,
    }
    if baseline is not None:
        columns |= {"speedup": baseline / times, "oracle_speedup": baseline / dataset.best}
    return {name: values for name, values in columns.items() if np.isfinite(values).any()}


def _chosen_times(dataset: Dataset, chosen: NDArray[np.intp]) -> _Array:
    if chosen.shape != (len(dataset),):
        raise ShapeError(f"{chosen.shape} choices for {len(dataset)} rows", argument="chosen")
    wrong = (chosen < 0) | (chosen >= len(dataset.candidates))
    if wrong.any():
        raise ParameterError("a chosen column does not exist", argument="chosen", position=int(wrong.argmax()))
    rows = np.arange(len(dataset))
    refused = ~dataset.supported[rows, chosen]
    if refused.any():
        row = int(refused.argmax())
        raise ParameterError(
            f"{dataset.candidates[chosen[row]]} cannot run on {dataset.names[row]}", argument="chosen", position=row
        )
    return dataset.times[rows, chosen]


def _draws(groups: NDArray[np.intp], samples: int, seed: int) -> list[NDArray[np.intp]]:
    """Draw groups with replacement, as many as there are; a group comes with all its rows."""
    order = np.argsort(groups, kind="stable")
    bounds = np.searchsorted(groups[order], np.arange(groups.max() + 2))
    members = [order[a:b] for a, b in itertools.pairwise(bounds)]
    random = np.random.default_rng(seed)
    return [
        np.concatenate([members[g] for g in random.integers(0, len(members), len(members))]) for _ in range(samples)
    ]


def _finite_mean(values: _Array) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else float("nan")
