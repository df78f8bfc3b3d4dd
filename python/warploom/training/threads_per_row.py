"""Selection of the threads per row of CSR-vector as Gao et al. do it [1]_.

Models of several families predict from eleven features which of 2, 4, 8, 16 and 32 threads per row is the fastest;
hyper-parameters are found by automated search within the training set. The same is done for blocks of rows.

Sweeps leave out more threads per row than twice the longest row needs, except 32. Such a number cannot be chosen.

References
----------
.. [1] Gao, Ji, Liu, Wang, Shi, "Revisiting thread configuration of SpMV kernels on GPU: A machine learning based
   approach", Journal of Parallel and Distributed Computing, 2024.
"""

from __future__ import annotations

import dataclasses
import logging
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom.bench.measurements import Measurements, part_of
from warploom.candidates import parse
from warploom.errors import ParameterError
from warploom.predictor import Model
from warploom.training.data import Dataset, complete, input_matrix
from warploom.training.evaluate import losses
from warploom.training.families import FAMILIES, INPUTS

__all__ = [
    "CANDIDATES",
    "LONG_ROW",
    "THREADS",
    "Found",
    "accuracies",
    "blocks_data",
    "choose",
    "search",
    "search_families",
    "threads_per_row_data",
    "train",
    "whole_name",
]

THREADS = (2, 4, 8, 16, 32)
"""The numbers of threads to choose among (section 2.1)."""

CANDIDATES = tuple(parse(f"spmv/none/csr/vector[threads_per_row={threads}]").name for threads in THREADS)
"""Their candidates."""

LONG_ROW = 512
"""``T_LONG``: a matrix with a row of at least this many nonzeros is irregular; `warploom.partition.partition_rows`."""

_log = logging.getLogger(__name__)
_Columns = NDArray[np.intp]


def threads_per_row_data(
    measurements: Measurements, dtype: str = "float64", cache: str = "warm"
) -> tuple[Dataset, int]:
    """Take the times of CSR-vector with 2 to 32 threads per row.

    Parameters
    ----------
    measurements : Measurements
    dtype : str
        The paper's is ``float64``.
    cache : {"warm", "cold"}
        The paper averages 100 products that follow each other, which is ``warm``.

    Returns
    -------
    dataset : Dataset
        Columns are `CANDIDATES`; whole matrices and transposes, no blocks of rows.
    left_out : int
        Matrices that lack a time.

    Raises
    ------
    ParameterError
        There are no times of them.
    """
    dataset, left_out = complete(Dataset.of(measurements, f"spmv/{dtype}", cache, needed=CANDIDATES), CANDIDATES)
    whole = part_of(pd.Series(dataset.names)) != "block"
    if not whole.any():
        raise ParameterError("there is no whole matrix with all the times", argument="measurements")
    return dataset.rows(whole), left_out


def blocks_data(
    measurements: Measurements, dtype: str = "float64", cache: str = "warm"
) -> tuple[Dataset, Dataset, int]:
    """Take the times of blocks of rows: matrices whose names end in a slice, such as ``HB/west0479[0:239]``.

    Parameters
    ----------
    measurements : Measurements
        With the whole matrices among the matrices; a row of `LONG_ROW` nonzeros makes one irregular.
    dtype : str
    cache : {"warm", "cold"}

    Returns
    -------
    known : Dataset
        Slices of regular matrices, to train on (section 4.3).
    test : Dataset
        Blocks of irregular matrices that have short rows only.
    unknown : int
        Blocks whose whole matrix is missing.

    Raises
    ------
    ParameterError
        There are no blocks, or none of one of the kinds.
    """
    dataset, _ = complete(Dataset.of(measurements, f"spmv/{dtype}", cache, needed=CANDIDATES), CANDIDATES)
    blocks = part_of(pd.Series(dataset.names)) == "block"
    if not blocks.any():
        raise ParameterError(
            "no blocks of rows were measured (names ending in a slice; the part 'blocks' of the standard corpus)",
            argument="measurements",
        )
    dataset = dataset.rows(blocks)
    longest = measurements.matrices.set_index("matrix")["spmv_nnz_per_row_max"]
    of_whole = longest.reindex([whole_name(name) for name in dataset.names]).to_numpy(np.float64)
    short = dataset.features["spmv_nnz_per_row_max"] < LONG_ROW
    test = (of_whole >= LONG_ROW) & short
    # A regular matrix whose transpose is irregular must not be on both sides.
    known = (of_whole < LONG_ROW) & ~np.isin(dataset.groups, dataset.groups[test])
    for rows, kind in ((known, "regular"), (test, "irregular")):
        if not rows.any():
            raise ParameterError(f"no blocks of {kind} matrices were measured", argument="measurements")
    return dataset.rows(known), dataset.rows(test), int(np.isnan(of_whole).sum())


def whole_name(name: str) -> str:
    """Return the name without its last slice: a transpose's block belongs to the transpose."""
    return re.sub(r"\[\d*:\d*\]$", "", name)


def choose(model: Model, dataset: Dataset) -> _Columns:
    """Return the column that a model chooses for each row: that of the maximum output, among those measured."""
    predicted = model.predict(input_matrix(dataset, "spmv", model.inputs))
    columns = [model.outputs.index(name) for name in dataset.candidates]
    return np.asarray(np.where(dataset.supported, predicted[:, columns], -np.inf).argmax(axis=1), dtype=np.intp)


@dataclasses.dataclass(frozen=True, eq=False)
class Found:
    """The result of a search.

    Attributes
    ----------
    family : str
    parameters : dict
    value : float
        Of the objective, by cross-validation within the training set.
    """

    family: str
    parameters: dict[str, Any]
    value: float


def search(
    dataset: Dataset, family: str, *, trials: int = 16, folds: int = 4, objective: str = "loss", seed: int = 0
) -> Found:
    """Search the parameters of a family, by cross-validation that keeps a matrix and its transpose together.

    Parameters
    ----------
    dataset : Dataset
        The training set.
    family : str
        One of `FAMILIES`.
    trials : int
        Parameters to try, at least 1; families that train slowly try fewer.
    folds : int
    objective : {"loss", "accuracy"}
        Mean of chosen / best - 1, to be minimised, or share of the fastest, as the paper has it.
    seed : int

    Returns
    -------
    Found

    Raises
    ------
    ParameterError
        There is no such family or objective.
    """
    import optuna
    from sklearn.model_selection import GroupKFold  # type: ignore[import-untyped, unused-ignore]

    if family not in FAMILIES:
        raise ParameterError(f"no family '{family}'; known are {', '.join(FAMILIES)}", argument="family")
    if objective not in ("loss", "accuracy"):
        raise ParameterError(f"no objective '{objective}'; known are loss, accuracy", argument="objective")
    kind = FAMILIES[family]
    X = input_matrix(dataset, "spmv", INPUTS)
    splits = list(GroupKFold(folds, shuffle=True, random_state=seed).split(X, groups=dataset.groups))

    def value(trial: Any) -> float:
        parameters = kind.suggest(trial)
        trial.set_user_attr("parameters", parameters)
        found = []
        for rows, others in splits:
            model = kind.fit(X[rows], dataset.rows(rows), parameters, seed)
            lost = losses(dataset.rows(others), choose(model, dataset.rows(others)), merged=False)
            found.append(lost if objective == "loss" else (lost == 0).astype(np.float64))
        return float(np.concatenate(found).mean())

    with _quiet(optuna):
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=5)
        trials_of = optuna.create_study(direction="minimize" if objective == "loss" else "maximize", sampler=sampler)
        trials_of.enqueue_trial(dict(kind.start))
        trials_of.optimize(value, n_trials=max(1, round(kind.share * trials)))
    return Found(family, dict(trials_of.best_trial.user_attrs["parameters"]), float(trials_of.best_value))


def search_families(
    known: Dataset,
    test: Dataset | None,
    families: Iterable[str],
    *,
    trials: int,
    objective: str,
    seed: int,
    folds: int = 4,
) -> tuple[Found, Model, pd.DataFrame]:
    """Search in several families.

    Parameters
    ----------
    known : Dataset
        The training set.
    test : Dataset, optional
        Held-out rows that the table judges the models on.
    families : iterable of str
    trials, objective, seed, folds
        See `search`.

    Returns
    -------
    best : Found
        By the objective.
    model : Model
        That of the best family, trained on the whole training set.
    table : pandas.DataFrame
        ``family``, ``validated`` (value of the objective), ``seconds`` and ``parameters`` of each, and its `accuracies`
        on the held-out rows.
    """
    found, models, table = [], [], []
    X = input_matrix(known, "spmv", INPUTS)
    for family in families:
        started = time.perf_counter()
        found.append(search(known, family, trials=trials, folds=folds, objective=objective, seed=seed))
        models.append(FAMILIES[family].fit(X, known, found[-1].parameters, seed))
        row: dict[str, Any] = {"family": family, "validated": found[-1].value}
        if test is not None:
            row |= accuracies(test, choose(models[-1], test))
        row |= {"seconds": time.perf_counter() - started, "parameters": str(found[-1].parameters)}
        table.append(row)
        _log.info("%s", row)
    values = [one.value for one in found]
    position = int(np.argmin(values) if objective == "loss" else np.argmax(values))
    return found[position], models[position], pd.DataFrame(table)


def accuracies(test: Dataset, chosen: _Columns) -> dict[str, float]:
    """Return shares of the fastest choices, near-ties merged and not, and the mean loss in per cent (PLUB)."""
    raw, near = (losses(test, chosen, merged=merge) for merge in (False, True))
    return {
        "accuracy": float((raw == 0).mean()),
        "merged_accuracy": float((near == 0).mean()),
        "plub": float(100 * raw.mean()),
    }


def train(
    measurements: Measurements,
    *,
    dtypes: Iterable[str] = ("float64",),
    caches: Iterable[str] = ("warm",),
    families: Iterable[str] = tuple(FAMILIES),
    trials: int = 16,
    objective: str = "loss",
) -> dict[str, Model]:
    """Train on all matrices, and on blocks of rows, with parameters found by search, for a profile.

    Parameters
    ----------
    measurements : Measurements
    dtypes, caches : iterable of str
    families : iterable of str
        Of `FAMILIES`; the one that is best by cross-validation is taken.
    trials, objective
        See `search`.

    Returns
    -------
    dict from str to Model
        ``threads-per-row-DTYPE-CACHE``, and ``threads-per-row-blocks-DTYPE-CACHE`` if blocks were measured. Inputs are
        the eleven features; outputs are candidates, of which the one with the maximum output is to be taken. Progress
        is logged.

    Raises
    ------
    ParameterError
        There are no times of CSR-vector.
    """
    kinds, types = tuple(families), tuple(dtypes)
    models: dict[str, Model] = {}
    for cache in caches:
        for dtype in types:
            name = f"threads-per-row-{dtype}-{cache}"
            dataset, _ = threads_per_row_data(measurements, dtype, cache)
            best, models[name], _ = search_families(dataset, None, kinds, trials=trials, objective=objective, seed=0)
            _log.info("%s: %s", name, best)
            name = f"threads-per-row-blocks-{dtype}-{cache}"
            try:
                known, _, _ = blocks_data(measurements, dtype, cache)
            except ParameterError as error:
                _log.warning("no model %s: %s", name, error)
                continue
            best, models[name], _ = search_families(known, None, kinds, trials=trials, objective=objective, seed=0)
            _log.info("%s: %s", name, best)
    return models


@contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Keep the search from logging every trial; restore the level afterwards."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(level)
