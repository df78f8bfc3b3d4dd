"""The preparation time of a candidate, as a sum of terms in the size of the matrix."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.optimize
from numpy.typing import NDArray

from warploom.candidates import Candidate, parse
from warploom.errors import ParameterError
from warploom.experiments import Findings
from warploom.model_inputs import PREPARATION_INPUTS, preparation_inputs
from warploom.predictor import Model
from warploom.profiles import Profile
from warploom.training.data import Dataset

__all__ = ["Refit", "fit_preparation", "refit_preparation", "relative_errors"]

_Array = NDArray[np.float64]
_HUBER = 0.3
"""Errors beyond it count less: a preparation that the system interrupted is an outlier."""
SWEEP = "sweep"
"""What coefficients are taken from that the experiment says nothing of."""
FEATURES = "features"
"""Name of the model of what computing features takes, whose only output is the set "spmm"."""
_PREFIX = "preparation-"
_OTHERS = re.compile(_PREFIX + "spmm-(b?float16|float64)-.*")
"""Models of SpMM of value types that the experiment may lack."""
_FEWEST = 8
"""Candidates that were prepared for fewer matrices count as not measured: their coefficients would be arbitrary."""
_FOLDS = 5
_SIZES = {
    "spmv_num_rows": "rows",
    "spmv_num_cols": "cols",
    "spmv_nnz": "nnz",
    "spmv_nnz_per_row_max": "longest_row",
}
"""What the terms are made of, with the columns of the experiment."""


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
        Linear in `warploom.model_inputs.preparation_inputs`, with coefficients of 0 or more, fitted to logarithms.
    """
    terms = np.concatenate([preparation_inputs(dataset.features) for dataset in datasets])
    milliseconds = np.concatenate(
        [np.stack([_preparation(dataset, name) for name in candidates], axis=1) for dataset in datasets]
    )
    return _model(_fit_each(terms, milliseconds), candidates)


def relative_errors(model: Model, dataset: Dataset) -> _Array:
    """Return abs(log(predicted / measured)) of each row and candidate of a model; NaN where nothing was measured."""
    measured = np.stack([_preparation(dataset, name) for name in model.outputs], axis=1)
    return _errors(model.predict(preparation_inputs(dataset.features)), measured)


@dataclasses.dataclass(frozen=True, eq=False)
class Refit:
    """A profile whose models of preparation have been fitted again."""

    profile: Profile
    errors: pd.DataFrame
    """For each model and candidate: ``matrices`` that it was prepared for; ``error`` and ``error_90``, the median and
    the 90th percentile of abs(log(predicted / measured)) on matrices that were held out; and ``taken_from``, where it
    was prepared for too few: the candidate whose coefficients it has, or `SWEEP` where it keeps its own."""

    def summary(self) -> list[str]:
        """Return a line for each model, with the candidate that is predicted worst."""
        lines = []
        for model, of in self.errors.groupby("model", sort=False):
            taken = int((of["taken_from"] != "").sum())
            worst = of.loc[of["error"].idxmax()]
            lines.append(
                f"{model}: {len(of)} candidates, {taken} of which like another one or the sweep; "
                f"median error {of['error'].median():.0%}, at most {worst['error']:.0%} ({worst['candidate']})"
            )
        return lines


def refit_preparation(profile: Profile, findings: Findings) -> Refit:
    """Fit the models of preparation of a profile to the experiment ``preparation``.

    Parameters
    ----------
    profile : Profile
    findings : Findings
        Of the same GPU.

    Returns
    -------
    Refit
        The profile with new models of preparation, ``preparation_error`` of each selector, on matrices that were held
        out, and ``metrics["preparation"]``, which says what was measured on; everything else is as it was. A candidate
        that was prepared for too few matrices takes as long as one that differs from it in as few parameters as
        possible; without one of the same permutation and kernel, as long as it did in the sweeps that the profile was
        trained on, or else as long as the slowest one of the model. Models of SpMM in other types than float32 stay
        those of the sweeps where the experiment has none of that type. But sweeps compute orders of rows on the host:
        a candidate with one that only they know takes as long as without it, and what the order adds to others of the
        experiment, of whatever value type.

    Raises
    ------
    ParameterError
        The findings are of another GPU, or have no times for one of the models.
    """
    gpu = str(findings.environment.get("gpu", ""))
    if gpu != profile.gpu:
        raise ParameterError(
            f"the profile is one of the {profile.gpu}, preparation was measured {findings.where}", argument="findings"
        )
    models = dict(profile.models)
    fits: dict[str, _Fit] = {}
    for name in [name for name in models if name.startswith(_PREFIX)]:
        if _OTHERS.fullmatch(name) and not _rows_of(findings.table, name).shape[0]:
            continue
        prepared = _Prepared.of(findings.table, name, models[name])
        fits[name] = prepared.fit()
        models[name] = _model(fits[name].weights, models[name].outputs)
    if not fits:
        raise ParameterError("the profile has no models of preparation", argument="profile")
    orders = _Orders.of(fits)
    for name in [name for name in models if name.startswith(_PREFIX)]:
        of_sweep = [taken == SWEEP for taken in fits[name].taken_from] if name in fits else None
        models[name] = orders.applied(models[name], of_sweep)
    models[FEATURES] = _features(findings.table)
    metrics = dict(profile.metrics)
    metrics["selectors"] = {
        name: {**facts, "preparation_error": _error_of_selector(profile.models[name], fits[_used_by(name)])}
        if _used_by(name) in fits
        else facts
        for name, facts in metrics["selectors"].items()
    }
    metrics["preparation"] = {
        "gpu": gpu,
        "cuda": str(findings.environment.get("cuda", "")),
        "matrices": int(findings.table["matrix"].nunique()),
        "made": findings.made,
    }
    errors = pd.concat([fit.table(name) for name, fit in fits.items()], ignore_index=True)
    return Refit(dataclasses.replace(profile, models=models, metrics=metrics), errors)


@dataclasses.dataclass(frozen=True, eq=False)
class _Fit:
    candidates: tuple[str, ...]
    weights: _Array
    taken_from: list[str]
    errors: _Array
    """Of each matrix and candidate, held out; NaN where nothing was measured."""

    def table(self, model: str) -> pd.DataFrame:
        return pd.DataFrame(
            {
                "model": model.removeprefix(_PREFIX),
                "candidate": self.candidates,
                "matrices": np.isfinite(self.errors).sum(axis=0),
                "error": [_quantile(column, 0.5) for column in self.errors.T],
                "error_90": [_quantile(column, 0.9) for column in self.errors.T],
                "taken_from": self.taken_from,
            }
        )


@dataclasses.dataclass(frozen=True, eq=False)
class _Prepared:
    """What the experiment found for the candidates of one model."""

    candidates: tuple[str, ...]
    terms: _Array
    milliseconds: _Array
    known: _Array
    """Coefficients from the sweep; zeros where there are none."""

    @classmethod
    def of(cls, table: pd.DataFrame, model: str, fitted: Model) -> _Prepared:
        candidates = fitted.outputs
        of_kind = _rows_of(table, model)
        timed = of_kind[(of_kind["status"] == "ok") & (of_kind["preparation_ms"] > 0)]
        by_matrix = timed.pivot_table("preparation_ms", "matrix", "candidate").reindex(columns=list(candidates))
        sizes = timed.groupby("matrix")[list(_SIZES.values())].first().reindex(by_matrix.index)
        found = cls(
            tuple(candidates),
            preparation_inputs({name: sizes[column].to_numpy(np.float64) for name, column in _SIZES.items()}),
            by_matrix.to_numpy(np.float64),
            np.asarray(fitted.arrays["layer.0.weight"][0], dtype=np.float64),
        )
        if len(found.terms) < 2 * _FEWEST or not found._is_measured.any():
            raise ParameterError(
                f"too few matrices were prepared for {model.removeprefix(_PREFIX)}", argument="findings"
            )
        return found

    @property
    def _is_measured(self) -> NDArray[np.bool_]:
        return np.asarray(np.isfinite(self.milliseconds).sum(axis=0) >= _FEWEST)

    def fit(self) -> _Fit:
        weights, taken_from = self._weights()
        errors = np.full(self.milliseconds.shape, np.nan)
        fold = np.random.default_rng(0).permutation(len(self.terms)) % _FOLDS
        for number in range(_FOLDS):
            out = fold == number
            rest = dataclasses.replace(self, terms=self.terms[~out], milliseconds=self.milliseconds[~out])
            if rest._is_measured.any():
                errors[out] = _errors(self.terms[out] @ rest._weights()[0].T, self.milliseconds[out])
        return _Fit(self.candidates, weights, taken_from, errors)

    def _weights(self) -> tuple[_Array, list[str]]:
        """Fit each candidate, or take the coefficients of another one; also returns the names of these."""
        measured = self._is_measured
        weights = _fit_each(self.terms, np.where(measured, self.milliseconds, np.nan))
        cost = np.where(measured, np.log(np.maximum(self.terms @ weights.T, 1e-9)).mean(axis=0), -np.inf)
        parsed = [parse(name) for name in self.candidates]
        taken_from = [""] * len(parsed)
        for i in np.flatnonzero(~measured):
            known = [j for j in np.flatnonzero(measured) if _is_akin(parsed[i], parsed[j])]
            if not known and self.known[i].any():
                weights[i], taken_from[i] = self.known[i], SWEEP
                continue
            near = min(known, key=lambda j: (_differences(parsed[i], parsed[j]), -cost[j]), default=int(cost.argmax()))
            weights[i], taken_from[i] = weights[near], self.candidates[near]
        return weights, taken_from


@dataclasses.dataclass(frozen=True, eq=False)
class _Orders:
    """What orders of rows add to preparation, by the operation and the permutation: coefficients."""

    added: dict[tuple[str, str], _Array]

    @classmethod
    def of(cls, fits: Mapping[str, _Fit]) -> _Orders:
        """Take the median over the candidates that were prepared with an order and without."""
        found: dict[tuple[str, str], list[_Array]] = {}
        for fit in fits.values():
            measured = {
                name: weights
                for name, weights, taken in zip(fit.candidates, fit.weights, fit.taken_from, strict=True)
                if not taken
            }
            for name, weights in measured.items():
                op, permutation, _ = name.split("/", 2)
                twin = measured.get(_without_order(name))
                if permutation != "none" and twin is not None:
                    found.setdefault((op, permutation), []).append(np.maximum(weights - twin, 0))
        return cls({key: np.median(added, axis=0) for key, added in found.items()})

    def applied(self, model: Model, of_sweep: Sequence[bool] | None) -> Model:
        """Return a model of preparation whose candidates with an order that only sweeps know take as long as this."""
        weights = np.array(model.arrays["layer.0.weight"][0], dtype=np.float64)
        places = {candidate: place for place, candidate in enumerate(model.outputs)}
        changed = False
        for candidate, place in places.items():
            op, permutation, _ = candidate.split("/", 2)
            added, plain = self.added.get((op, permutation)), _without_order(candidate)
            akin = (at for other, at in places.items() if other.partition("[")[0] == plain.partition("[")[0])
            twin = places.get(plain, next(akin, None))
            if added is not None and twin is not None and (of_sweep is None or of_sweep[place]):
                weights[place] = weights[twin] + added
                changed = True
        return _model(weights, model.outputs) if changed else model


def _without_order(candidate: str) -> str:
    op, _, kernel = candidate.split("/", 2)
    return f"{op}/none/{kernel}"


def _rows_of(table: pd.DataFrame, model: str) -> pd.DataFrame:
    op, dtype, layout = [*model.removeprefix(_PREFIX).split("-"), ""][:3]
    of_layout = table["layout"].astype(object).fillna("") == layout
    return table[(table["op"] == op) & (table["dtype"] == dtype) & of_layout]


def _is_akin(a: Candidate, b: Candidate) -> bool:
    return (a.permutation, a.kernel.format, a.kernel.name) == (b.permutation, b.kernel.format, b.kernel.name)


def _differences(a: Candidate, b: Candidate) -> int:
    return sum(x != y for x, y in zip(a.parameters, b.parameters, strict=True))


def _used_by(selector: str) -> str:
    """Return the model of preparation of a selector: the state of the cache does not matter."""
    return _PREFIX + selector.removeprefix("quick-").rpartition("-")[0]


def _features(table: pd.DataFrame) -> Model:
    """Fit what computing the features of SpMM takes, in milliseconds."""
    of_spmm = table[(table["op"] == "spmm") & (table["features_us"] > 0)].groupby("matrix").first()
    terms = preparation_inputs({name: of_spmm[column].to_numpy(np.float64) for name, column in _SIZES.items()})
    return _model(_fit_each(terms, 1e-3 * of_spmm[["features_us"]].to_numpy(np.float64)), ["spmm"])


def _error_of_selector(selector: Model, fit: _Fit) -> float:
    return round(_quantile(fit.errors[:, [name in selector.outputs for name in fit.candidates]], 0.5), 4)


def _quantile(errors: _Array, share: float) -> float:
    known = errors[np.isfinite(errors)]
    return float(np.quantile(known, share)) if len(known) else float("nan")


def _preparation(dataset: Dataset, candidate: str) -> _Array:
    if candidate not in dataset.candidates:
        return np.full(len(dataset), np.nan)
    return dataset.preparation_ms[:, dataset.candidates.index(candidate)]


def _errors(predicted: _Array, measured: _Array) -> _Array:
    with np.errstate(divide="ignore"):
        return np.asarray(np.abs(np.log(np.maximum(predicted, 1e-6) / np.where(measured > 0, measured, np.nan))))


def _model(weights: _Array, candidates: Sequence[str]) -> Model:
    arrays: dict[str, NDArray[Any]] = {
        "input.mean": np.zeros(len(PREPARATION_INPUTS)),
        "input.scale": np.ones(len(PREPARATION_INPUTS)),
        "layer.0.weight": weights[np.newaxis].astype(np.float32),
        "layer.0.bias": np.zeros((1, len(candidates)), np.float32),
    }
    settings = {"activation": "identity", "output": "identity"}
    return Model("network", PREPARATION_INPUTS, tuple(candidates), settings, arrays)


def _fit_each(terms: _Array, milliseconds: _Array) -> _Array:
    """Fit the coefficients of each column; zeros where nothing is known."""
    weights = np.zeros((milliseconds.shape[1], terms.shape[1]))
    for row, column in zip(weights, milliseconds.T, strict=True):
        known = np.isfinite(column) & (column > 0)
        row[:] = _fit(terms[known], column[known])
    return weights


def _fit(terms: _Array, milliseconds: _Array, rounds: int = 20) -> _Array:
    """Fit non-negative coefficients to logarithms of the times, by least squares whose weights follow the errors.

    Relative to what was measured, a prediction that is too short is never off by more than all of it, and fits that
    keep such errors small predict too short in the mean.
    """
    if not len(milliseconds):
        return np.zeros(terms.shape[1])
    found, _ = scipy.optimize.nnls(terms / milliseconds[:, np.newaxis], np.ones(len(milliseconds)))
    for _ in range(rounds):  # of Gauss-Newton
        predicted = np.maximum(terms @ found, 1e-3 * milliseconds)  # which may be 0
        error = np.log(milliseconds / predicted)
        weight = np.sqrt(_HUBER / np.maximum(np.abs(error), _HUBER))
        found, _ = scipy.optimize.nnls(terms / predicted[:, np.newaxis] * weight[:, np.newaxis], (1 + error) * weight)
    return np.asarray(found)
