"""Selection of the threads per row of CSR-vector as Gao et al. do it [1]_.

Models of several families predict from eleven features which of 2, 4, 8, 16 and 32 threads per row is the fastest;
hyper-parameters are found by automated search within the training set. Besides, there is what explains the models (one
decision tree, its depth and importances), what they cost, and the same for blocks of rows.

Sweeps leave out more threads per row than twice the longest row needs, except 32. Such a number cannot be chosen, and
does not count where a figure is about it.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom import features
from warploom.bench.measurements import Measurements, part_of
from warploom.candidates import parse
from warploom.errors import ParameterError
from warploom.predictor import MAX_STORED_VECTORS, Model, StoredVectors
from warploom.training import export
from warploom.training._held_out import HeldOut, complete, fastest, input_matrix
from warploom.training._network import NetworkOptions, fit_classes
from warploom.training.data import Dataset, random_splits
from warploom.training.evaluate import Score, losses, score

__all__ = [
    "CANDIDATES",
    "FAMILIES",
    "THREADS",
    "BlockwiseStudy",
    "Family",
    "Found",
    "Shuffle",
    "ThreadsPerRowStudy",
    "TrainedThreadsPerRow",
    "Tree",
    "blocks_data",
    "choose",
    "cost_of_trees",
    "decision_tree",
    "depth_study",
    "formula_columns",
    "inference_microseconds",
    "precision_agreement",
    "search",
    "shuffle",
    "study",
    "study_blocks",
    "threads_per_row_data",
    "train",
]

THREADS = (2, 4, 8, 16, 32)
"""What there is to choose among (section 2.1)."""

CANDIDATES = tuple(parse(f"spmv/none/csr/vector[threads_per_row={threads}]").name for threads in THREADS)
"""Their candidates."""

INPUTS = features.names("spmv")
LONG_ROW = 512
"""``T_LONG``: a matrix with a row of so many nonzeros is irregular; `warploom.partition.partition_rows`."""

NNZ_RANGES = (1e4, 1e5, 1e6, 1e7, 1e8)
"""Upper ends of the ranges of table 5 and figure 6."""

LOSS_INTERVALS = (2, 6, 10, 100)
"""Upper ends, in per cent, of the intervals of figures 7 and 10."""

_WORST = 0.5
"""Logarithms of time / best time count as no more than this when models are trained."""

_FORMULAS = ("mean", "SqMean")

_log = logging.getLogger(__name__)
_Array = NDArray[np.float64]
_Columns = NDArray[np.intp]


# What is measured.


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
        Matrices of which a time is lacking.

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


def formula_columns(dataset: Dataset, formula: str) -> _Columns:
    """Return what an empirical formula takes.

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


def choose(model: Model, dataset: Dataset) -> _Columns:
    """Return the column that a model chooses for each row: that of the greatest output, among those measured."""
    predicted = model.predict(input_matrix(dataset, "spmv", model.inputs))
    columns = [model.outputs.index(name) for name in dataset.candidates]
    return np.asarray(np.where(dataset.supported, predicted[:, columns], -np.inf).argmax(axis=1), dtype=np.intp)


# Families of models. All give one output for each candidate, of which the greatest is to be taken.


@dataclasses.dataclass(frozen=True)
class Family:
    """A kind of model: what there is to search, and how it is trained."""

    suggest: Callable[[Any], dict[str, Any]]
    """From a trial of the search to parameters."""
    start: Mapping[str, Any]
    """Parameters that are tried first."""
    fit: Callable[[_Array, Dataset, Mapping[str, Any], int], Model]
    """From inputs, the rows that they are of, parameters and a seed to a model."""
    share: float = 1.0
    """Of the trials: what trains slowly gets fewer."""


def _classes_and_weights(dataset: Dataset, weighting: str) -> tuple[_Columns, _Array]:
    """Return the best column of each row, and what the row counts for.

    With the weighting ``cost``, rows count for what a wrong choice costs on average: those where all threads per row
    take the same time hardly count, whichever of them happened to be the fastest.
    """
    if weighting == "equal":
        return fastest(dataset), np.ones(len(dataset))
    return fastest(dataset), 0.02 - _scores(dataset).mean(axis=1)


def _scores(dataset: Dataset) -> _Array:
    """Return -log(time / best time), limited: 0 for the fastest."""
    times = np.where(np.isfinite(dataset.times), dataset.times, np.inf)
    return np.asarray(-np.minimum(np.log(times / dataset.best[:, np.newaxis]), _WORST))


def _suggest_trees(trial: Any) -> dict[str, Any]:
    return {
        "target": trial.suggest_categorical("target", ["class", "loss"]),
        "weighting": trial.suggest_categorical("weighting", ["equal", "cost"]),
        "min_samples_leaf": trial.suggest_int("min_samples_leaf", 1, 12, log=True),
        "max_features": trial.suggest_float("max_features", 0.2, 1.0),
        "max_depth": trial.suggest_int("max_depth", 4, 20),
    }


def _suggest_one_tree(trial: Any) -> dict[str, Any]:
    return {name: value for name, value in _suggest_trees(trial).items() if name != "max_features"}


def _suggest_boosting(trial: Any) -> dict[str, Any]:
    return {
        "weighting": trial.suggest_categorical("weighting", ["equal", "cost"]),
        "iterations": trial.suggest_int("iterations", 20, 120, log=True),
        "learning_rate": trial.suggest_float("learning_rate", 0.03, 0.3, log=True),
        "num_leaves": trial.suggest_int("num_leaves", 4, 24, log=True),
        "min_data_in_leaf": trial.suggest_int("min_data_in_leaf", 3, 30, log=True),
        "feature_fraction": trial.suggest_float("feature_fraction", 0.4, 1.0),
        "lambda_l2": trial.suggest_float("lambda_l2", 1e-3, 10.0, log=True),
    }


def _suggest_network(trial: Any) -> dict[str, Any]:
    return {
        "weighting": trial.suggest_categorical("weighting", ["equal", "cost"]),
        "layers": trial.suggest_int("layers", 1, 2),
        "width": trial.suggest_categorical("width", [16, 32, 64]),
        "l2": trial.suggest_float("l2", 1e-5, 1e-2, log=True),
        "epochs": trial.suggest_int("epochs", 30, 150, log=True),
    }


def _sklearn(kind: str) -> Callable[[_Array, Dataset, Mapping[str, Any], int], Model]:
    def fit(X: _Array, dataset: Dataset, parameters: Mapping[str, Any], seed: int) -> Model:
        import sklearn.ensemble  # type: ignore[import-untyped, unused-ignore]
        import sklearn.tree  # type: ignore[import-untyped, unused-ignore]

        settings = dict(parameters)
        target, weighting = settings.pop("target"), settings.pop("weighting")
        module = sklearn.tree if kind == "DecisionTree" else sklearn.ensemble
        if kind != "DecisionTree":
            settings = {"n_estimators": 100, "n_jobs": 1} | settings
        estimator = getattr(module, kind + ("Classifier" if target == "class" else "Regressor"))
        classes, weights = _classes_and_weights(dataset, weighting)
        fitted = estimator(random_state=seed, **settings)
        fitted.fit(X, classes if target == "class" else _scores(dataset), sample_weight=weights)
        from_fitted = export.from_sklearn_tree if kind == "DecisionTree" else export.from_sklearn_forest
        if target == "loss":
            return from_fitted(fitted, INPUTS, dataset.candidates, check=_check(X))
        outputs = [dataset.candidates[column] for column in fitted.classes_]
        return _with_all_outputs(from_fitted(fitted, INPUTS, outputs), dataset.candidates, X)

    return fit


def _fit_boosting(X: _Array, dataset: Dataset, parameters: Mapping[str, Any], seed: int) -> Model:
    import lightgbm

    settings = dict(parameters)
    iterations = settings.pop("iterations")
    classes, weights = _classes_and_weights(dataset, settings.pop("weighting"))
    fixed = {
        "objective": "multiclass",
        "num_class": len(dataset.candidates),
        "seed": seed,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "verbosity": -1,
    }
    data = lightgbm.Dataset(X, classes, weight=weights / weights.mean())
    booster = lightgbm.train(fixed | settings, data, iterations)
    return export.from_lightgbm(booster, dataset.candidates, inputs=INPUTS, check=_check(X))


def _fit_network(X: _Array, dataset: Dataset, parameters: Mapping[str, Any], seed: int) -> Model:
    hidden = tuple(parameters["width"] >> i for i in range(parameters["layers"]))
    options = NetworkOptions(hidden, parameters["l2"], epochs=parameters["epochs"], batch=64, members=3, seed=seed)
    classes, weights = _classes_and_weights(dataset, parameters["weighting"])
    return fit_classes(X, classes, weights, INPUTS, dataset.candidates, options)


_TREES = {"target": "loss", "weighting": "equal", "min_samples_leaf": 2, "max_depth": 20}

FAMILIES: dict[str, Family] = {
    "boosted trees": Family(
        _suggest_boosting,
        {
            "weighting": "cost",
            "iterations": 60,
            "learning_rate": 0.08,
            "num_leaves": 12,
            "min_data_in_leaf": 8,
            "feature_fraction": 0.8,
            "lambda_l2": 0.1,
        },
        _fit_boosting,
    ),
    "random forest": Family(_suggest_trees, {**_TREES, "max_features": 1.0}, _sklearn("RandomForest"), 0.5),
    "extra trees": Family(_suggest_trees, {**_TREES, "max_features": 1.0}, _sklearn("ExtraTrees"), 0.5),
    "network": Family(
        _suggest_network,
        {"weighting": "cost", "layers": 2, "width": 64, "l2": 3e-4, "epochs": 100},
        _fit_network,
        0.25,
    ),
    "decision tree": Family(
        _suggest_one_tree, {**_TREES, "min_samples_leaf": 4, "max_depth": 8}, _sklearn("DecisionTree")
    ),
}
"""The families of the search: LightGBM, scikit-learn's forests and tree, three networks of PyTorch whose scores
are averaged."""


# Search.


@dataclasses.dataclass(frozen=True, eq=False)
class Found:
    """What a search found.

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


# Global: one number of threads for a matrix.


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
        formulas, and ``merged``: the model's that can be told from the best.
    speedups : pandas.DataFrame
        Over TpR 16 where it was measured: ``configuration`` (``mean``, ``SqMean``, ``model``, ``optimal``),
        ``arithmetic``, ``geometric`` means, and for how many matrices it was the fastest (``wins``).
    """

    seed: int
    best: Found
    model: Model
    families: pd.DataFrame
    chosen: HeldOut
    gains: pd.DataFrame
    by_nnz: pd.DataFrame
    mispredictions: pd.DataFrame
    speedups: pd.DataFrame

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
        Of the split, the search and the models.
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
    best, model, table = _search_families(
        known, test, families, trials=trials, folds=folds, objective=objective, seed=seed
    )
    return _judge(seed, best, model, table, test, samples)


def _search_families(
    known: Dataset,
    test: Dataset | None,
    families: Iterable[str],
    *,
    trials: int,
    objective: str,
    seed: int,
    folds: int = 4,
) -> tuple[Found, Model, pd.DataFrame]:
    """Return the best of what is found in each family, its model, and a table of all of them."""
    found, models, table = [], [], []
    X = input_matrix(known, "spmv", INPUTS)
    for family in families:
        started = time.perf_counter()
        found.append(search(known, family, trials=trials, folds=folds, objective=objective, seed=seed))
        models.append(FAMILIES[family].fit(X, known, found[-1].parameters, seed))
        row: dict[str, Any] = {"family": family, "validated": found[-1].value}
        if test is not None:
            row |= _accuracy(test, choose(models[-1], test))
        row |= {"seconds": time.perf_counter() - started, "parameters": str(found[-1].parameters)}
        table.append(row)
        _log.info("%s", row)
    values = [one.value for one in found]
    position = int(np.argmin(values) if objective == "loss" else np.argmax(values))
    return found[position], models[position], pd.DataFrame(table)


def _accuracy(test: Dataset, chosen: _Columns) -> dict[str, float]:
    raw, near = (losses(test, chosen, merged=merge) for merge in (False, True))
    return {
        "accuracy": float((raw == 0).mean()),
        "merged_accuracy": float((near == 0).mean()),
        "plub": float(100 * raw.mean()),
    }


def _judge(seed: int, best: Found, model: Model, table: pd.DataFrame, test: Dataset, samples: int) -> Shuffle:
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
        speedups=_speedups(test, {"model": chosen}),
    )


def _configurations(dataset: Dataset) -> dict[str, _Array]:
    """Return the times of the fixed numbers of threads and of the formulas; NaN where there are none."""
    lines = np.arange(len(dataset))
    fixed = {str(threads): dataset.times[:, column] for column, threads in enumerate(THREADS)}
    return fixed | {name: dataset.times[lines, formula_columns(dataset, name)] for name in _FORMULAS}


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
    columns |= {f"PLUB({name})": 100 * (configurations[name] / dataset.best - 1) for name in _FORMULAS}
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
        **{name: _formula_losses(dataset, name) for name in _FORMULAS},
    }
    for name, loss in found.items():
        wrong = 100 * loss[loss > 0]
        table[name] = np.bincount(np.searchsorted(edges[1:-1], wrong, side="left"), minlength=len(table))
    return table


def _formula_losses(dataset: Dataset, formula: str) -> _Array:
    return np.asarray(dataset.times[np.arange(len(dataset)), formula_columns(dataset, formula)] / dataset.best - 1)


def _speedups(dataset: Dataset, chosen: Mapping[str, _Columns]) -> pd.DataFrame:
    """Return mean speedups over TpR 16 of the formulas, of choices and of the optimum."""
    lines = np.arange(len(dataset))
    base = dataset.times[:, THREADS.index(16)]
    columns = {name: formula_columns(dataset, name) for name in _FORMULAS} | dict(chosen)
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
                "wins": int((times == dataset.best).sum()),
                "rows": int(known.sum()),
            }
        )
    return pd.DataFrame(rows)


# One decision tree, and what trees cost.


@dataclasses.dataclass(frozen=True, eq=False)
class Tree:
    """A decision tree to look at.

    Attributes
    ----------
    nodes : pandas.DataFrame
        ``node``, ``depth``, ``feature`` (empty for a leaf), ``threshold`` (rows with at most so much go left),
        ``left``, ``right`` (-1 for a leaf), ``matrices``, and ``threads``, the most frequent optimum.
    importances : pandas.DataFrame
        ``feature`` and ``importance``, the share of the whole decrease of the Gini impurity, most important first.
    figures : dict from str to float
        ``accuracy``, ``merged_accuracy`` and ``plub`` (per cent) on the held-out matrices.
    """

    nodes: pd.DataFrame
    importances: pd.DataFrame
    figures: dict[str, float]


def decision_tree(known: Dataset, test: Dataset, depth: int = 5, seed: int = 0) -> Tree:
    """Train one decision tree on the optima, as for figure 13.

    Parameters
    ----------
    known, test : Dataset
        Columns are `CANDIDATES`.
    depth : int
        At most.
    seed : int

    Returns
    -------
    Tree
    """
    from sklearn.tree import DecisionTreeClassifier  # type: ignore[import-untyped, unused-ignore]

    fitted = DecisionTreeClassifier(max_depth=depth, random_state=seed)
    fitted.fit(input_matrix(known, "spmv", INPUTS), fastest(known))
    tree = fitted.tree_
    depths = np.zeros(tree.node_count, dtype=int)
    for node in range(tree.node_count):  # children come after their parents
        for child in (tree.children_left[node], tree.children_right[node]):
            if child >= 0:
                depths[child] = depths[node] + 1
    leaf = tree.children_left < 0
    threads = np.array(THREADS)[fitted.classes_[tree.value[:, 0].argmax(axis=1)]]
    nodes = pd.DataFrame(
        {
            "node": np.arange(tree.node_count),
            "depth": depths,
            "feature": ["" if end else INPUTS[f] for end, f in zip(leaf, tree.feature, strict=True)],
            "threshold": np.where(leaf, np.nan, tree.threshold),
            "left": tree.children_left,
            "right": tree.children_right,
            "matrices": tree.n_node_samples,
            "threads": threads,
        }
    )
    importances = pd.DataFrame({"feature": INPUTS, "importance": fitted.feature_importances_})
    model = _class_tree(fitted, known)
    return Tree(
        nodes,
        importances.sort_values("importance", ascending=False, kind="stable", ignore_index=True),
        _accuracy(test, choose(model, test)),
    )


def depth_study(known: Dataset, test: Dataset, depths: Iterable[int] = range(1, 16), seed: int = 0) -> pd.DataFrame:
    """Compare decision trees by their depth, as figure 12 does.

    Parameters
    ----------
    known, test : Dataset
    depths : iterable of int
    seed : int

    Returns
    -------
    pandas.DataFrame
        ``configuration`` (``tree``, ``mean``, ``SqMean``, ``optimal``), ``depth`` (NaN but for trees),
        ``arithmetic`` and ``geometric`` mean speedup over TpR 16, ``accuracy``, ``merged_accuracy``, ``plub``.
    """
    from sklearn.tree import DecisionTreeClassifier  # type: ignore[import-untyped, unused-ignore]

    X = input_matrix(known, "spmv", INPUTS)
    chosen = {}
    for depth in depths:
        fitted = DecisionTreeClassifier(max_depth=depth, random_state=seed).fit(X, fastest(known))
        chosen[f"depth {depth}"] = choose(_class_tree(fitted, known), test)
    table = _speedups(test, chosen).set_index("configuration")
    columns = {name: formula_columns(test, name) for name in _FORMULAS} | chosen | {"optimal": fastest(test)}
    rows = []
    for name, taken in columns.items():
        rows.append(
            {
                "configuration": "tree" if name in chosen else name,
                "depth": float(name.split()[1]) if name in chosen else np.nan,
                "arithmetic": table.loc[name, "arithmetic"],
                "geometric": table.loc[name, "geometric"],
                **_accuracy(test, taken),
            }
        )
    return pd.DataFrame(rows)


def cost_of_trees(
    known: Dataset,
    test: Dataset,
    numbers: Iterable[int] = (5, 10, 20, 50, 100, 200),
    depths: Iterable[int] = (2, 3, 5, 8, 12),
    seed: int = 0,
) -> pd.DataFrame:
    """Compare boosted trees by number and depth: how good they are and how long the C++ predictor takes.

    Parameters
    ----------
    known, test : Dataset
    numbers : iterable of int
        Of iterations, ``nE`` of figures 14 and 15: each makes one tree for each number of threads.
    depths : iterable of int
    seed : int

    Returns
    -------
    pandas.DataFrame
        ``iterations``, ``depth``, ``trees``, ``accuracy``, ``merged_accuracy``, ``plub`` and ``microseconds`` for one
        matrix on this CPU, one thread.
    """
    X = input_matrix(known, "spmv", INPUTS)
    rows = []
    for number in numbers:
        for depth in depths:
            parameters = {
                "weighting": "equal",
                "iterations": number,
                "learning_rate": 0.1,
                "num_leaves": min(31, 2**depth),
                "max_depth": depth,
                "min_data_in_leaf": 5,
            }
            model = _fit_boosting(X, known, parameters, seed)
            rows.append(
                {
                    "iterations": number,
                    "depth": depth,
                    "trees": len(model.arrays["tree.offset"]) - 1,
                    **_accuracy(test, choose(model, test)),
                    "microseconds": inference_microseconds(model, input_matrix(test, "spmv", INPUTS)),
                }
            )
    return pd.DataFrame(rows)


def _class_tree(fitted: Any, dataset: Dataset) -> Model:
    outputs = [dataset.candidates[column] for column in fitted.classes_]
    X = input_matrix(dataset, "spmv", INPUTS)
    return _with_all_outputs(export.from_sklearn_tree(fitted, INPUTS, outputs), dataset.candidates, X)


def inference_microseconds(model: Model, X: _Array, repeats: int = 5) -> float:
    """Return the time of one prediction on this CPU, one thread.

    Parameters
    ----------
    model : Model
    X : ndarray of float64, shape (n, inputs)
        Features of some matrices.
    repeats : int

    Returns
    -------
    float
        Microseconds: the least of several means, each over about 1,000 matrices.
    """
    many = np.ascontiguousarray(np.tile(X, (-(-1000 // len(X)), 1)))
    model.predict(many)
    best = np.inf
    for _ in range(repeats):
        started = time.perf_counter()
        model.predict(many)
        best = min(best, time.perf_counter() - started)
    return 1e6 * best / len(many)


def precision_agreement(
    measurements: Measurements, dtypes: tuple[str, str] = ("float64", "float32"), cache: str = "warm"
) -> pd.DataFrame:
    """Compare the optima of two value types (section 6.2).

    Parameters
    ----------
    measurements : Measurements
    dtypes : tuple of str
    cache : {"warm", "cold"}

    Returns
    -------
    pandas.DataFrame
        One row for each matrix measured with both: ``matrix``, the optimum of each type under its name, ``same``,
        ``gap`` = time of the first type's optimum / least time - 1, both with the second type, and ``near``: the gap is
        within the repeatability.

    Raises
    ------
    ParameterError
        There are no times of one of the types.
    """
    first, second = (threads_per_row_data(measurements, dtype, cache)[0] for dtype in dtypes)
    names, in_first, in_second = np.intersect1d(first.names, second.names, return_indices=True)
    first, second = first.rows(in_first), second.rows(in_second)
    best, other = fastest(first), fastest(second)
    gap = second.times[np.arange(len(names)), best] / second.best - 1
    return pd.DataFrame(
        {
            "matrix": names,
            dtypes[0]: np.array(THREADS)[best],
            dtypes[1]: np.array(THREADS)[other],
            "same": best == other,
            "gap": gap,
            "near": np.log1p(gap) <= second.tolerance,
        }
    )


# Blocks of rows.


@dataclasses.dataclass(frozen=True, eq=False)
class BlockwiseStudy:
    """Selection for blocks of short rows.

    Attributes
    ----------
    optima : pandas.DataFrame
        Of the training blocks, as in figure 5: ``threads``, ``blocks``.
    result : Shuffle
        Trained on slices of regular matrices, judged on the short-row blocks of irregular ones; ``relaxed accuracy``
        of table 9 is the figure ``within_2`` of ``result.chosen``.
    whole : pandas.DataFrame
        For each irregular matrix whose blocks were measured, times in microseconds of the whole product: ``global 16``,
        ``global mean``, ``global SqMean``, ``global optimal``, ``blockwise mean`` (each block by the formula),
        ``blockwise model`` and ``blockwise optimal``; the last two with one number of threads for all its short-row
        blocks, that predicted for the block with most nonzeros, or the best one. ``global model`` is there if a model
        of whole matrices was asked for. NaN where nothing was measured.
    average : pandas.DataFrame
        ``configuration``, and its ``arithmetic`` and ``geometric`` mean speedup over TpR 16, as in table 8, ``rows``.
    unknown : int
        Blocks left out since the whole matrix was not measured: nothing tells whether it is irregular.
    """

    optima: pd.DataFrame
    result: Shuffle
    whole: pd.DataFrame
    average: pd.DataFrame
    unknown: int


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
        Blocks whose whole matrix is not there.

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
    of_whole = longest.reindex([_whole(name) for name in dataset.names]).to_numpy(np.float64)
    short = dataset.features["spmv_nnz_per_row_max"] < LONG_ROW
    test = (of_whole >= LONG_ROW) & short
    # A regular matrix whose transpose is irregular must not be on both sides.
    known = (of_whole < LONG_ROW) & ~np.isin(dataset.groups, dataset.groups[test])
    for rows, kind in ((known, "regular"), (test, "irregular")):
        if not rows.any():
            raise ParameterError(f"no blocks of {kind} matrices were measured", argument="measurements")
    return dataset.rows(known), dataset.rows(test), int(np.isnan(of_whole).sum())


def study_blocks(
    measurements: Measurements,
    dtype: str = "float64",
    cache: str = "warm",
    *,
    of_whole: Found | None = None,
    families: Iterable[str] = tuple(FAMILIES),
    trials: int = 16,
    folds: int = 4,
    objective: str = "loss",
    seed: int = 0,
    samples: int = 1000,
) -> BlockwiseStudy:
    """Train on slices of regular matrices, choose for the short-row blocks of irregular ones.

    Parameters
    ----------
    measurements : Measurements
    dtype : str
    cache : {"warm", "cold"}
    of_whole : Found, optional
        Family and parameters for a model of whole matrices to compare with. It is trained without the irregular
        matrices of the test.
    families, trials, folds, objective, seed, samples
        See `shuffle`.

    Returns
    -------
    BlockwiseStudy

    Raises
    ------
    ParameterError
        See `blocks_data`.
    """
    known, test, unknown = blocks_data(measurements, dtype, cache)
    best, model, table = _search_families(
        known, test, families, trials=trials, folds=folds, objective=objective, seed=seed
    )
    global_model = None
    if of_whole is not None:
        others, _ = threads_per_row_data(measurements, dtype, cache)
        others = others.rows(~np.isin(others.groups, test.groups))
        X = input_matrix(others, "spmv", INPUTS)
        global_model = FAMILIES[of_whole.family].fit(X, others, of_whole.parameters, seed)
    whole = _whole_products(Dataset.of(measurements, f"spmv/{dtype}", cache), test, model, global_model)
    return BlockwiseStudy(
        optima=_optima(known),
        result=_judge(seed, best, model, table, test, samples),
        whole=whole,
        average=_average(whole),
        unknown=unknown,
    )


def _whole(name: str) -> str:
    """Return the name without its last slice: a transpose's block belongs to the transpose."""
    return re.sub(r"\[\d*:\d*\]$", "", name)


def _optima(dataset: Dataset) -> pd.DataFrame:
    counts = np.bincount(fastest(dataset), minlength=len(THREADS))
    return pd.DataFrame({"threads": THREADS, "blocks": counts})


def _whole_products(everything: Dataset, test: Dataset, model: Model, global_model: Model | None) -> pd.DataFrame:
    chosen = pd.DataFrame({"matrix": map(_whole, test.names), "nnz": test.nnz, "column": choose(model, test)})
    largest = chosen.sort_values("nnz", kind="stable").drop_duplicates("matrix", keep="last").set_index("matrix")
    whole = everything.rows(np.isin(everything.names, largest.index.to_numpy().astype(str)))
    blockwise = [f"spmv/none/csr/blockwise[threads_per_row={threads}]" for threads in THREADS]
    by_threads = np.stack([whole.times_of(name) for name in blockwise], axis=1)
    global_times = np.stack([whole.times_of(name) for name in CANDIDATES], axis=1)
    lines = np.arange(len(whole))
    columns: dict[str, Any] = {"matrix": whole.names, "global 16": global_times[:, THREADS.index(16)]}
    columns |= {f"global {name}": global_times[lines, formula_columns(whole, name)] for name in _FORMULAS}
    if global_model is not None:
        columns["global model"] = global_times[lines, choose(global_model, whole.columns(CANDIDATES))]
    columns["global optimal"] = _least(global_times)
    columns["blockwise mean"] = whole.times_of("spmv/none/csr/blockwise")
    columns["blockwise model"] = by_threads[lines, largest["column"].reindex(whole.names).to_numpy(np.intp)]
    columns["blockwise optimal"] = _least(by_threads)
    return pd.DataFrame(columns)


def _average(whole: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for name in whole.columns[1:]:
        speedup = (whole["global 16"] / whole[name]).dropna()
        geometric = float(np.exp(np.log(speedup).mean()))
        rows.append({"configuration": name, "arithmetic": speedup.mean(), "geometric": geometric, "rows": len(speedup)})
    return pd.DataFrame(rows)


def _least(times: _Array) -> _Array:
    least = np.where(np.isnan(times), np.inf, times).min(axis=1)
    return np.where(np.isinf(least), np.nan, least)


# Everything.


@dataclasses.dataclass(frozen=True, eq=False)
class ThreadsPerRowStudy:
    """How well threads per row are selected on matrices that were held out.

    Attributes
    ----------
    dtype, cache : str
    matrices, left_out : int
        With all times, and without.
    optima : pandas.DataFrame
        As in figure 3: ``threads``, ``matrices``, and ``near``: for how many no other number can be told to be faster.
    shuffles : list of Shuffle
    table : pandas.DataFrame
        Table 4: a row for each shuffle.
    pooled : HeldOut
        Choices of all shuffles together.
    pooled_plub : Score
        PLUB of all shuffles together, in per cent.
    depths : pandas.DataFrame
        `depth_study` of the first shuffle.
    tree : Tree
        `decision_tree` of the first shuffle.
    costs : pandas.DataFrame
        `cost_of_trees` of the first shuffle.
    """

    dtype: str
    cache: str
    matrices: int
    left_out: int
    optima: pd.DataFrame
    shuffles: list[Shuffle]
    table: pd.DataFrame
    pooled: HeldOut
    pooled_plub: Score
    depths: pd.DataFrame
    tree: Tree
    costs: pd.DataFrame

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as JSON can hold them."""
        return {
            "dtype": self.dtype,
            "cache": self.cache,
            "matrices": self.matrices,
            "left_out": self.left_out,
            "families": [one.best.family for one in self.shuffles],
            "plub": [float(f"{value:.5g}") for value in self.pooled_plub.as_list()],
            **self.pooled.as_dict(),
        }


@dataclasses.dataclass(frozen=True, eq=False)
class TrainedThreadsPerRow:
    """Models for a profile, and how good models like them are on matrices that were held out.

    Attributes
    ----------
    models : dict from str to Model
        ``threads-per-row-DTYPE-CACHE``, and ``threads-per-row-blocks-DTYPE-CACHE`` if blocks were measured. Inputs are
        the eleven features; outputs are candidates, of which that with the greatest output is to be taken.
    studies : dict from str to ThreadsPerRowStudy
        By ``DTYPE-CACHE``.
    blockwise : dict from str to BlockwiseStudy
        By ``DTYPE-CACHE``.
    agreement : dict from str to pandas.DataFrame
        `precision_agreement` by cache.
    missing : dict from str to str
        What could not be done, by ``blockwise-DTYPE-CACHE`` or ``agreement-CACHE``, and why.
    """

    models: dict[str, Model]
    studies: dict[str, ThreadsPerRowStudy]
    blockwise: dict[str, BlockwiseStudy]
    agreement: dict[str, pd.DataFrame]
    missing: dict[str, str]


def study(
    dataset: Dataset,
    *,
    left_out: int = 0,
    seeds: Sequence[int] = (0, 1, 2, 3),
    families: Iterable[str] = tuple(FAMILIES),
    trials: int = 16,
    objective: str = "loss",
    samples: int = 1000,
) -> ThreadsPerRowStudy:
    """Select threads per row in several shuffles, and look into the models of the first.

    Parameters
    ----------
    dataset : Dataset
        From `threads_per_row_data`.
    left_out : int
        From `threads_per_row_data`.
    seeds : sequence of int
        One for each shuffle, at least one.
    families, trials, objective, samples
        See `shuffle`.

    Returns
    -------
    ThreadsPerRowStudy
    """
    kinds = tuple(families)
    shuffles = [
        shuffle(dataset, seed, families=kinds, trials=trials, objective=objective, samples=samples) for seed in seeds
    ]
    splits = list(random_splits(dataset, 0.25, seeds))
    tests = [dataset.rows(test) for _, test in splits]
    chosen = [choose(one.model, test) for one, test in zip(shuffles, tests, strict=True)]
    known, test = dataset.rows(splits[0][0]), tests[0]
    times = np.where(np.isfinite(dataset.times), dataset.times, np.inf)
    near = np.log(times / dataset.best[:, np.newaxis]) <= dataset.tolerance[:, np.newaxis]
    return ThreadsPerRowStudy(
        dtype=dataset.dtype,
        cache=dataset.cache,
        matrices=len(dataset),
        left_out=left_out,
        optima=_optima(dataset).rename(columns={"blocks": "matrices"}).assign(near=near.sum(axis=0)),
        shuffles=shuffles,
        table=pd.DataFrame([one.row() for one in shuffles]),
        pooled=HeldOut.of(tests, chosen, [str(t) for t in THREADS], "16", samples=samples),
        pooled_plub=score(tests[0].joined(*tests[1:]), np.concatenate(chosen), samples=samples)["plub"],
        depths=depth_study(known, test),
        tree=decision_tree(known, test),
        costs=cost_of_trees(known, test),
    )


def train(
    measurements: Measurements,
    *,
    dtypes: Iterable[str] = ("float64",),
    caches: Iterable[str] = ("warm",),
    studies: bool = True,
    seeds: Sequence[int] = (0, 1, 2, 3),
    families: Iterable[str] = tuple(FAMILIES),
    trials: int = 16,
    objective: str = "loss",
    samples: int = 1000,
) -> TrainedThreadsPerRow:
    """Train on all matrices with parameters found by search, and judge models found alike on held-out ones.

    Parameters
    ----------
    measurements : Measurements
    dtypes, caches : iterable of str
    studies : bool
        Whether to judge, which takes most of the time.
    seeds, families, trials, objective, samples
        See `study`.

    Returns
    -------
    TrainedThreadsPerRow
        Progress is logged.

    Raises
    ------
    ParameterError
        There are no times of CSR-vector.
    """
    trained = TrainedThreadsPerRow({}, {}, {}, {}, {})
    kinds, types = tuple(families), tuple(dtypes)
    settings: dict[str, Any] = {"families": kinds, "trials": trials, "objective": objective, "samples": samples}
    for cache in caches:
        for dtype in types:
            dataset, left_out = threads_per_row_data(measurements, dtype, cache)
            best, model, _ = _search_families(dataset, None, kinds, trials=trials, objective=objective, seed=0)
            trained.models[f"threads-per-row-{dtype}-{cache}"] = model
            _log.info("threads per row, %s, %s: %s", dtype, cache, best)
            if not studies:
                continue
            found = study(dataset, left_out=left_out, seeds=seeds, **settings)
            trained.studies[f"{dtype}-{cache}"] = found
            _log.info("threads per row: %s", found.as_dict())
            with _noting(trained.missing, f"blockwise-{dtype}-{cache}"):
                blockwise = study_blocks(measurements, dtype, cache, of_whole=best, **settings)
                trained.blockwise[f"{dtype}-{cache}"] = blockwise
                trained.models[f"threads-per-row-blocks-{dtype}-{cache}"] = blockwise.result.model
        if studies:
            with _noting(trained.missing, f"agreement-{cache}"):
                trained.agreement[cache] = precision_agreement(measurements, cache=cache)
    return trained


@contextmanager
def _noting(missing: dict[str, str], name: str) -> Iterator[None]:
    """Note what cannot be done with these measurements instead of ending."""
    try:
        yield
    except ParameterError as error:
        missing[name] = str(error)
        _log.warning("%s: %s", name, error)


@contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Keep the search from logging every trial; what was set is set again."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(level)


def _check(X: _Array) -> _Array:
    return X[:: -(-len(X) // MAX_STORED_VECTORS)]


def _with_all_outputs(model: Model, outputs: Sequence[str], X: _Array) -> Model:
    """Give a classifier outputs, of probability 0, for the candidates that were best nowhere."""
    arrays = dict(model.arrays)
    for name in ("leaf.value", "base"):
        values = arrays[name]
        whole = np.zeros((*values.shape[:-1], len(outputs)))
        whole[..., [list(outputs).index(known) for known in model.outputs]] = values
        arrays[name] = whole
    whole_model = Model(model.kind, model.inputs, outputs, model.settings, arrays)
    check = StoredVectors(_check(X), whole_model.predict(_check(X)))
    return Model(model.kind, model.inputs, outputs, model.settings, arrays, check)
