"""Threads per row that models choose for held-out matrices, judged as Gao et al. (2024) do it.

Sweeps leave out more threads per row than twice the longest row needs, except 32. Such a number cannot be chosen, and
is left out of figures about it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom.predictor import Model
from warploom.reproduce.held_out import HeldOut
from warploom.training.data import Dataset, fastest, random_splits
from warploom.training.evaluate import Score, losses, score
from warploom.training.families import FAMILIES
from warploom.training.threads_per_row import THREADS, Found, choose, search_families

__all__ = ["FORMULAS", "Shuffle", "formula_columns", "judge_choices", "shuffle", "speedups_over_16"]

NNZ_RANGES = (1e4, 1e5, 1e6, 1e7, 1e8)
"""Upper ends of the ranges of table 5 and figure 6."""

LOSS_INTERVALS = (2, 6, 10, 100)
"""Upper ends, in per cent, of the intervals of figures 7 and 10."""

FORMULAS = ("mean", "SqMean")
"""The empirical formulas, see `formula_columns`."""

_Array = NDArray[np.float64]
_Columns = NDArray[np.intp]


@dataclasses.dataclass(frozen=True, eq=False)
class Shuffle:
    """Training on three quarters of the matrices, choices for the others.

    Attributes
    ----------
    seed : int
    best : Found
        The family and parameters that are best by cross-validation within the training set.
    model : Model
    families : pandas.DataFrame
        ``family``, ``validated`` (value of the objective), ``accuracy``, ``merged_accuracy``, ``plub``, ``seconds``
        and ``parameters`` of each; all but ``validated`` on the held-out matrices. The paper lists the family with the
        highest ``accuracy``.
    chosen : HeldOut
        Choices of the best model; baseline is TpR 16.
    gains : pandas.DataFrame
        PLUB and PGO in per cent: ``figure`` (``PLUB``, ``PGO(2)`` to ``PGO(32)``, ``PGO(mean)``, ``PGO(SqMean)``),
        ``value``, ``low``, ``high`` (bootstrap interval), ``rows`` that have the time.
    by_nnz : pandas.DataFrame
        ``above`` and ``up_to`` nonzeros, ``matrices``, mean PLUB of ``mean``, ``SqMean`` and the model (``PLUB(mean)``,
        ``PLUB(SqMean)``, ``PLUB``), and the PGO of the model over each other configuration.
    mispredictions : pandas.DataFrame
        ``above`` and ``up_to`` in per cent of PLUB, and how many: ``matrices``, ``mean`` and ``SqMean`` for the
        formulas, and ``merged``: the model's without near-ties of the best.
    """

    seed: int
    best: Found
    model: Model
    families: pd.DataFrame
    chosen: HeldOut
    gains: pd.DataFrame
    by_nnz: pd.DataFrame
    mispredictions: pd.DataFrame

    def row(self) -> dict[str, Any]:
        """Return the row of table 4."""
        figures = self.chosen.figures
        gains = dict(zip(self.gains["figure"], self.gains["value"], strict=True))
        return {
            "shuffle": self.seed,
            "model": self.best.family,
            "accuracy": figures.loc["accuracy", "raw"],
            "merged_accuracy": figures.loc["accuracy", "merged"],
            "within_2": figures.loc["within_2", "raw"],
            **gains,
        }


def shuffle(
    dataset: Dataset,
    seed: int = 0,
    *,
    families: Iterable[str] = tuple(FAMILIES),
    trials: int = 16,
    folds: int = 4,
    objective: str = "loss",
    samples: int = 1000,
) -> Shuffle:
    """Search on 75 % of the matrices, and choose for the others.

    Parameters
    ----------
    dataset : Dataset
        From `threads_per_row_data`.
    seed : int
        Seed for the split, the search and the models.
    families : iterable of str
    trials, folds, objective
        See `search`.
    samples : int
        Bootstrap samples for the intervals.

    Returns
    -------
    Shuffle
    """
    rows, others = next(iter(random_splits(dataset, 0.25, (seed,))))
    known, test = dataset.rows(rows), dataset.rows(others)
    best, model, table = search_families(
        known, test, families, trials=trials, folds=folds, objective=objective, seed=seed
    )
    return judge_choices(seed, best, model, table, test, samples)


def judge_choices(seed: int, best: Found, model: Model, table: pd.DataFrame, test: Dataset, samples: int) -> Shuffle:
    """Judge what a model chooses for held-out matrices.

    Parameters
    ----------
    seed : int
    best, model, table
        From `warploom.training.threads_per_row.search_families`.
    test : Dataset
        The held-out matrices.
    samples : int
        Bootstrap samples for the intervals.
    """
    chosen = choose(model, test)
    held_out = HeldOut.of([test], [chosen], [str(t) for t in THREADS], "16", samples=samples)
    configurations = _configurations(test)
    return Shuffle(
        seed=seed,
        best=best,
        model=model,
        families=table,
        chosen=held_out,
        gains=_gains(test, chosen, configurations, samples),
        by_nnz=_by_nnz(test, chosen, configurations),
        mispredictions=_mispredictions(test, chosen),
    )


def formula_columns(dataset: Dataset, formula: str) -> _Columns:
    """Return the choice of an empirical formula.

    Parameters
    ----------
    dataset : Dataset
        Columns are `CANDIDATES`.
    formula : {"mean", "SqMean"}
        Equation (1), the mean row length as a power of two, or (2), its square root. 1 thread is raised to 2.

    Returns
    -------
    ndarray of int, shape (n,)
        Columns.
    """
    mean = dataset.nnz / np.maximum(dataset.features["spmv_num_rows"], 1)
    wanted = mean if formula == "mean" else np.sqrt(mean)
    return np.searchsorted(np.array(THREADS, dtype=np.float64), np.minimum(wanted, THREADS[-1]), side="left")


def _configurations(dataset: Dataset) -> dict[str, _Array]:
    """Return the times of the fixed numbers of threads and of the formulas; NaN where there are none."""
    lines = np.arange(len(dataset))
    fixed = {str(threads): dataset.times[:, column] for column, threads in enumerate(THREADS)}
    return fixed | {name: dataset.times[lines, formula_columns(dataset, name)] for name in FORMULAS}


def _gains(dataset: Dataset, chosen: _Columns, configurations: Mapping[str, _Array], samples: int) -> pd.DataFrame:
    rows = [_gain("PLUB", score(dataset, chosen, samples=samples)["plub"], len(dataset))]
    for name, times in configurations.items():
        known = np.isfinite(times)
        if known.any():
            part = dataset.rows(known)
            value = score(part, chosen[known], times[known], samples=samples)["pgo"]
            rows.append(_gain(f"PGO({name})", value, int(known.sum())))
    return pd.DataFrame(rows)


def _gain(figure: str, value: Score, rows: int) -> dict[str, Any]:
    return {"figure": figure, "value": value.value, "low": value.low, "high": value.high, "rows": rows}


def _by_nnz(dataset: Dataset, chosen: _Columns, configurations: Mapping[str, _Array]) -> pd.DataFrame:
    times = dataset.times[np.arange(len(dataset)), chosen]
    columns = {f"PGO({name})": 100 * (other / times - 1) for name, other in configurations.items()}
    columns |= {f"PLUB({name})": 100 * (configurations[name] / dataset.best - 1) for name in FORMULAS}
    frame = pd.DataFrame({"PLUB": 100 * (times / dataset.best - 1), **columns})
    edges = [0.0, *NNZ_RANGES, np.inf]
    place = np.searchsorted(edges[1:-1], dataset.nnz, side="left")
    means = frame.groupby(place).mean().reindex(range(len(edges) - 1))
    counts = np.bincount(place, minlength=len(edges) - 1)
    return pd.DataFrame({"above": edges[:-1], "up_to": edges[1:], "matrices": counts}).join(means)


def _mispredictions(dataset: Dataset, chosen: _Columns) -> pd.DataFrame:
    edges = [0.0, *LOSS_INTERVALS, np.inf]
    table = pd.DataFrame({"above": edges[:-1], "up_to": edges[1:]})
    found = {
        "matrices": losses(dataset, chosen, merged=False),
        "merged": losses(dataset, chosen),
        **{name: _formula_losses(dataset, name) for name in FORMULAS},
    }
    for name, loss in found.items():
        wrong = 100 * loss[loss > 0]
        table[name] = np.bincount(np.searchsorted(edges[1:-1], wrong, side="left"), minlength=len(table))
    return table


def _formula_losses(dataset: Dataset, formula: str) -> _Array:
    return np.asarray(dataset.times[np.arange(len(dataset)), formula_columns(dataset, formula)] / dataset.best - 1)


def speedups_over_16(dataset: Dataset, chosen: Mapping[str, _Columns]) -> pd.DataFrame:
    """Return mean speedups over TpR 16 of the formulas, of choices and of the optimum."""
    lines = np.arange(len(dataset))
    base = dataset.times[:, THREADS.index(16)]
    columns = {name: formula_columns(dataset, name) for name in FORMULAS} | dict(chosen)
    columns["optimal"] = fastest(dataset)
    rows = []
    for name, taken in columns.items():
        times = dataset.times[lines, taken]
        speedup = base / times
        known = np.isfinite(speedup)
        rows.append(
            {
                "configuration": name,
                "arithmetic": float(speedup[known].mean()) if known.any() else np.nan,
                "geometric": float(np.exp(np.log(speedup[known]).mean())) if known.any() else np.nan,
            }
        )
    return pd.DataFrame(rows)
