"""Families of models that choose among a few candidates, and what there is to search in each.

All give one output for each candidate, of which the maximum is to be taken. Inputs are the eleven features for SpMV.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warploom import features
from warploom.predictor import Model, StoredVectors
from warploom.training import export
from warploom.training.data import Dataset, fastest, input_matrix
from warploom.training.network import NetworkOptions, fit_classes

__all__ = ["FAMILIES", "INPUTS", "Family", "class_tree"]

INPUTS = features.names("spmv")
_WORST = 0.5
"""Logarithms of time / minimum time are limited to this when models are trained."""

_Array = NDArray[np.float64]
_Columns = NDArray[np.intp]


@dataclasses.dataclass(frozen=True)
class Family:
    """A kind of model: its search space, and how it is trained."""

    suggest: Callable[[Any], dict[str, Any]]
    """From a trial of the search to parameters."""
    start: Mapping[str, Any]
    """Parameters that are tried first."""
    fit: Callable[[_Array, Dataset, Mapping[str, Any], int], Model]
    """From inputs, the rows that they are of, parameters and a seed to a model."""
    share: float = 1.0
    """Share of the trials: models that train slowly get fewer."""


def _classes_and_weights(dataset: Dataset, weighting: str) -> tuple[_Columns, _Array]:
    """Return the best column of each row, and the weight of the row.

    With the weighting ``cost``, rows are weighted by the mean loss of a wrong choice: those where all threads per row
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
            return from_fitted(fitted, INPUTS, dataset.candidates, check=export.drawn_for_check(X))
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
    return export.from_lightgbm(booster, dataset.candidates, inputs=INPUTS, check=export.drawn_for_check(X))


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


def class_tree(fitted: Any, dataset: Dataset) -> Model:
    """Export a decision tree of scikit-learn that was fitted to the fastest columns of a data set.

    Parameters
    ----------
    fitted : sklearn.tree.DecisionTreeClassifier
    dataset : Dataset
        The training set.

    Returns
    -------
    Model
        With an output for each candidate, also for those that were the fastest nowhere.
    """
    outputs = [dataset.candidates[column] for column in fitted.classes_]
    X = input_matrix(dataset, "spmv", INPUTS)
    return _with_all_outputs(export.from_sklearn_tree(fitted, INPUTS, outputs), dataset.candidates, X)


def _with_all_outputs(model: Model, outputs: Sequence[str], X: _Array) -> Model:
    """Add outputs of probability 0 to a classifier, for the candidates that are the best for no matrix."""
    arrays = dict(model.arrays)
    for name in ("leaf.value", "base"):
        values = arrays[name]
        whole = np.zeros((*values.shape[:-1], len(outputs)))
        whole[..., [list(outputs).index(known) for known in model.outputs]] = values
        arrays[name] = whole
    whole_model = Model(model.kind, model.inputs, outputs, model.settings, arrays)
    checked = export.drawn_for_check(X)
    check = StoredVectors(checked, whole_model.predict(checked))
    return Model(model.kind, model.inputs, outputs, model.settings, arrays, check)
