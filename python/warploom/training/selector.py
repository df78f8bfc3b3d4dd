"""One selector over all candidates of an operation.

A model predicts, for each of a few candidates that matter, the logarithm of its time over the minimum time of the
matrix, and the minimum time itself; the candidate with the minimum prediction is chosen. Logarithms of ratios give
small and large matrices the same weight. They are compressed (`warploom.model_inputs.compress`), since only what is
close to the fastest decides. Candidates are reduced on the training part alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from warploom import _core
from warploom.model_inputs import (
    INPUTS,
    LOCALITY_INPUTS,
    LOSS,
    REFERENCE,
    VECTOR_INPUTS,
    compress,
    model_inputs,
    roofline_us,
)
from warploom.predictor import Model, StoredVectors
from warploom.training import export
from warploom.training.data import NOT_MEASURED, OVERLAP, Dataset
from warploom.training.evaluate import losses
from warploom.training.parallel import on_threads

__all__ = [
    "DEFAULTS",
    "FORMS",
    "Options",
    "candidates_of",
    "choices",
    "choices_measured",
    "cover",
    "doubts",
    "expected_losses",
    "fit",
    "fit_boosting",
    "fit_forest",
    "inputs_of",
    "options_of",
    "predictions",
    "rounded",
    "targets",
    "unseen_losses",
    "unseen_predictions",
]

WORST = 1.5
"""Logarithms of time / minimum time are limited to this."""

UNTRIED = 0.4
"""Logarithm of the time that a candidate counts with on matrices whose sweep has left it out, over the least time
without a row permutation: where those gain much, what was not tried would else be the fastest without one."""

LEAF_BITS = 7
"""Of what leaves of boosted trees add. A wheel has a limit: with 9 bits here and 18 below, trees take 0.6 MB more."""

THRESHOLD_BITS = 16
"""Of what inputs are compared with, for the same reason. They are rounded up: an input may be equal to one."""

CAUTION = 0.015
"""Where the predicted gain over the vendor's kernels is smaller, theirs are chosen: the gain is within the error."""

EFFORT = 0.005
"""Where the predicted gain over the original order is smaller, no row permutation is chosen, however many the calls."""

_Array = NDArray[np.float64]
Split = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Rows to train on, and rows that are held out."""

Form = Callable[[_Array, _Array, Sequence[str], Sequence[str], "Options"], Model]


@dataclasses.dataclass(frozen=True)
class Options:
    """How a selector is trained."""

    form: str = "boosting"
    """One of `FORMS`."""
    most: int = 24
    """Candidates chosen for their times alone."""
    iterations: int = 40
    """Of boosting: trees for each output."""
    rate: float = 0.15
    """Learning rate: the weight of each boosted tree."""
    leaves: int = 15
    """Of each boosted tree."""
    share: float = 0.6
    """Of the inputs, drawn for each boosted tree."""
    inputs: tuple[str, ...] | None = None
    """Of those in `warploom.model_inputs`; by default those that can differ, see `inputs_of`."""
    seed: int = 0


DEFAULTS = {"spmv": Options(most=16, iterations=60, rate=0.1, leaves=10, share=0.4), "spmm": Options(most=60)}
"""By operation: found on held-out matrices. Models of SpMM also have to distinguish values of k."""


def options_of(dataset: Dataset, options: Options | None = None) -> Options:
    """Return the options for a data set: `DEFAULTS` if not given, with more trees where it has several sweeps."""
    chosen = DEFAULTS[dataset.op] if options is None else options
    if not dataset.sweeps.any():
        return chosen
    return dataclasses.replace(chosen, iterations=3 * chosen.iterations // 2)


def cover(dataset: Dataset, most: int = 16, calls: float | None = None, *, least_gain: float = 2e-4) -> list[str]:
    """Choose candidates, one after the other, so that the best of them is close to the fastest of all.

    Parameters
    ----------
    dataset : Dataset
        The training part.
    most : int
        Maximum number of candidates.
    calls : float, optional
        Count preparation plus this number of products, instead of the product alone.
    least_gain : float
        End where the next one reduces the mean logarithm of time / minimum time by less.

    Returns
    -------
    list of str
        At least one, in the order chosen. Near-ties of the fastest have no loss, and candidates without a time have the
        maximum loss.
    """
    costs = dataset.times if calls is None else 1e3 * dataset.preparation_ms + calls * dataset.times
    costs = np.where(np.isfinite(costs), costs, np.inf)
    ratio = np.minimum(np.log(costs / costs.min(axis=1, keepdims=True)), WORST)
    ratio = np.where(ratio <= dataset.tolerance[:, np.newaxis], 0.0, ratio)
    covered = np.full(len(dataset), WORST)
    chosen: list[int] = []
    while len(chosen) < most:
        means = np.minimum(covered[:, np.newaxis], ratio).mean(axis=0)
        best = int(means.argmin())
        if chosen and covered.mean() - means[best] < least_gain:
            break
        covered = np.minimum(covered, ratio[:, best])
        chosen.append(best)
    return [dataset.candidates[column] for column in chosen]


def candidates_of(dataset: Dataset, options: Options) -> list[str]:
    """Return the candidates that matter: for many products, for few ones, and the vendor's; those of every sweep."""
    vendor = dataset.columns(
        [name for name, of_vendor in zip(dataset.candidates, dataset.vendor, strict=True) if of_vendor]
    )
    found: list[str] = []
    for sweep in np.unique(dataset.sweeps):
        part = dataset.rows(dataset.sweeps == sweep)
        found += cover(part, options.most) + cover(part, 2, calls=1) + cover(part, 2, calls=300)
    if vendor.candidates:
        found += cover(vendor.rows(np.isfinite(vendor.best)), 2)
    return list(dict.fromkeys(found))


def targets(dataset: Dataset, candidates: Sequence[str], loss: _Array | None = None) -> _Array:
    """Return what models of some candidates are trained on; NaN where there is no time.

    The vendor's candidates count as faster than they are by `CAUTION`, those with a row permutation as slower by
    `EFFORT`, and those that a matrix was not tried with as slower by `UNTRIED` than the fastest without one.
    """
    reference = np.log(dataset.best / roofline_us(dataset.features, dataset.k, dataset.itemsize))
    chosen = dataset.columns(candidates)
    ratio = np.log(chosen.times / dataset.best[:, np.newaxis])
    tried = compress(np.minimum(ratio, WORST)) - CAUTION * chosen.vendor + EFFORT * _is_permuted(candidates)
    untried = compress(UNTRIED + np.log(_least_without_permutation(dataset) / dataset.best))
    compressed = np.where(chosen.untried, untried[:, np.newaxis], tried)
    columns = [reference[:, np.newaxis], compressed]
    return np.concatenate(columns if loss is None else [columns[0], loss[:, np.newaxis], columns[1]], axis=1)


def _is_permuted(candidates: Sequence[str]) -> NDArray[np.bool_]:
    return np.array([name.split("/")[1] != "none" for name in candidates])


def _least_without_permutation(dataset: Dataset) -> _Array:
    """Return the least time of each row without a row permutation, or with one where that is all there is."""
    times = dataset.times[:, ~_is_permuted(dataset.candidates)]
    least = np.where(np.isfinite(times), times, np.inf).min(axis=1, initial=np.inf)
    return np.where(np.isfinite(least), least, dataset.best)


def inputs_of(dataset: Dataset, options: Options) -> tuple[str, ...]:
    """Return the names of the inputs of a model.

    Those of SpMV leave out k; those of SpMM in half precision have column vectors where the data set has their
    features; all have locality where it was measured for some of the matrices.
    """
    if options.inputs:
        return options.inputs
    of_locality = LOCALITY_INPUTS if (dataset.features[OVERLAP] != NOT_MEASURED).any() else ()
    if dataset.op == "spmv":
        return INPUTS[: INPUTS.index("log_k")] + of_locality
    has_vectors = dataset.itemsize == 2 and any(name.startswith("column_vectors_") for name in dataset.features)
    return INPUTS + (VECTOR_INPUTS if has_vectors else ()) + of_locality


def fit(
    dataset: Dataset,
    options: Options,
    candidates: Sequence[str] | None = None,
    loss: _Array | None = None,
    between: Dataset | None = None,
) -> Model:
    """Train a model.

    Parameters
    ----------
    dataset : Dataset
        The training part.
    options : Options
    candidates : sequence of str, optional
        By default `candidates_of` the training part.
    loss : ndarray of float64, shape (n,), optional
        The loss to be predicted, from `unseen_losses`; it is then an output.
    between : Dataset, optional
        Further rows to train on, of numbers of columns that were not measured: `warploom.training.between`. Boosting
        then takes a quarter more trees.

    Returns
    -------
    Model
        Outputs are `REFERENCE`, `LOSS` if given, and the candidates.
    """
    candidates = candidates_of(dataset, options) if candidates is None else candidates
    inputs = inputs_of(dataset, options)
    outputs = [REFERENCE, *([] if loss is None else [LOSS]), *candidates]
    if between is not None:
        loss = None if loss is None else np.concatenate([loss, np.full(len(between), np.nan)])
        dataset = dataset.joined(between)
        options = dataclasses.replace(options, iterations=5 * options.iterations // 4)
    X = model_inputs(dataset.features, dataset.k, inputs)
    return FORMS[options.form](X, targets(dataset, candidates, loss), inputs, outputs, options)


def predictions(model: Model, dataset: Dataset, X: _Array | None = None) -> _Array:
    """Return what a model predicts of the candidates, shape (n, candidates of the data set).

    Compressed logarithms of the time over the minimum one; infinite where a candidate cannot run or is not the model's.
    Candidates of the model that the data set lacks are left out.
    `X`, shape (n, inputs of the model), stands for the inputs that the data set has if it is given.
    """
    names = [name for name in model.outputs if name in dataset.candidates]
    outputs = [model.outputs.index(name) for name in names]
    found = np.full((len(dataset), len(dataset.candidates)), np.inf)
    if X is None:
        X = model_inputs(dataset.features, dataset.k, model.inputs)
    found[:, [dataset.candidates.index(name) for name in names]] = model.predict(X)[:, outputs]
    return np.where(dataset.supported, found, np.inf)


def choices(model: Model, dataset: Dataset) -> NDArray[np.intp]:
    """Return the column of the candidate that a model chooses for each row, among those that can run."""
    return np.asarray(predictions(model, dataset).argmin(axis=1))


def unseen_predictions(
    dataset: Dataset, options: Options, splits: Iterable[Split], between: Sequence[Dataset | None] | None = None
) -> _Array:
    """Return `predictions` of each row by a model that has not seen the row's matrix.

    Parameters
    ----------
    dataset : Dataset
    options : Options
    splits : iterable of (train, test)
        Every row is held out by one of them.
    between : sequence of Dataset or None, optional
        For each split, further rows to train on: see `fit`.
    """
    found = np.full(dataset.times.shape, np.inf)

    def predict(split: Split, further: Dataset | None) -> None:
        train, test = split
        found[test] = predictions(fit(dataset.rows(train), options, between=further), dataset.rows(test))

    known = list(splits)
    on_threads(predict, known, [None] * len(known) if between is None else between)
    return found


def unseen_losses(dataset: Dataset, predicted: _Array) -> _Array:
    """Return log(chosen / minimum time) of choices by `unseen_predictions`.

    Where the chosen candidate was not measured, it is the median of the others.
    """
    found = np.log1p(losses(dataset, predicted.argmin(axis=1), merged=False))
    return np.asarray(np.minimum(np.where(np.isnan(found), np.nanmedian(found), found), WORST))


def expected_losses(dataset: Dataset, loss: _Array, options: Options, splits: Iterable[Split]) -> _Array:
    """Return the loss of each row that is predicted by a model that has not seen the row's matrix.

    Parameters
    ----------
    dataset : Dataset
    loss : ndarray of float64, shape (n,)
        From `unseen_losses`.
    options : Options
    splits : iterable of (train, test)
        Every row is held out by one of them.
    """
    inputs = inputs_of(dataset, options)
    X = model_inputs(dataset.features, dataset.k, inputs)
    found = np.empty(len(dataset))

    def predict(split: Split) -> None:
        train, test = split
        model = FORMS[options.form](X[train], loss[train, np.newaxis], inputs, [LOSS], options)
        found[test] = model.predict(X[test])[:, 0]

    on_threads(predict, splits)
    return found


def doubts(predicted: _Array, loss: _Array) -> _Array:
    """Return how unsure predictions are: the loss expected of each row times how many candidates are near the first.

    Parameters
    ----------
    predicted : ndarray of float64, shape (n, candidates)
        `predictions` or `unseen_predictions`.
    loss : ndarray of float64, shape (n,)
        Predicted losses; below 0 counts as 0.

    Returns
    -------
    ndarray of float64, shape (n,)
        As ``warploom._core.Choice.doubt``. On matrices held out, what a choice loses goes more with this product than
        with either factor.
    """
    first = np.sort(predicted, axis=1)[:, : _core.NUM_NEAR]
    with np.errstate(invalid="ignore"):  # where no candidate is predicted
        near = np.exp((first[:, :1] - first[:, 1:]) / _core.NEARNESS).sum(axis=1)
    return np.asarray(np.maximum(loss, 0.0) * np.nan_to_num(near))


def choices_measured(
    dataset: Dataset, predicted: _Array, unsure: NDArray[np.bool_], margin: float, most: int
) -> NDArray[np.intp]:
    """Return the choices if short lists are measured where a prediction is unsure.

    Parameters
    ----------
    dataset : Dataset
    predicted : ndarray of float64, shape (n, candidates)
        `predictions` or `unseen_predictions`.
    unsure : ndarray of bool, shape (n,)
        Rows whose short list is measured.
    margin : float
        Candidates predicted to be within it of the best are on the short list.
    most : int
        Candidates that are measured.

    Returns
    -------
    ndarray of int, shape (n,)
        Columns. The times of the data set count as what is measured.
    """
    rank = predicted.argsort(axis=1, kind="stable").argsort(axis=1)
    listed = (predicted <= predicted.min(axis=1, keepdims=True) + margin) & (rank < most)
    times = np.where(listed & np.isfinite(dataset.times), dataset.times, np.inf)
    measured = unsure & np.isfinite(times.min(axis=1))
    return np.asarray(np.where(measured, times.argmin(axis=1), predicted.argmin(axis=1)))


def fit_boosting(X: _Array, Y: _Array, inputs: Sequence[str], outputs: Sequence[str], options: Options) -> Model:
    """Boost regression trees, one for each output in each iteration; NaN targets do not count."""
    import lightgbm

    known = np.isfinite(Y)
    base = np.nanmean(Y, axis=0)
    centred = np.where(known, Y - base, 0.0)

    def gradients(scores: _Array, _: object) -> tuple[_Array, _Array]:
        gradient = np.where(known, scores.reshape(Y.shape) - centred, 0.0)
        return gradient.reshape(scores.shape), known.astype(np.float64).reshape(scores.shape)

    parameters = {
        "objective": gradients,
        "num_class": Y.shape[1],
        "num_leaves": options.leaves,
        "learning_rate": options.rate,
        "min_data_in_leaf": 5,
        "min_sum_hessian_in_leaf": 5,
        "feature_fraction": options.share,
        "bagging_fraction": 0.8,
        "bagging_freq": 1,
        "seed": options.seed,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "verbosity": -1,
    }
    booster = lightgbm.train(parameters, lightgbm.Dataset(X, np.zeros(len(X))), options.iterations)
    exported = export.from_lightgbm(booster, list(outputs), inputs=list(inputs), output="identity")
    return _with_base(exported, base, X)


def _with_base(model: Model, base: _Array, X: _Array) -> Model:
    arrays = dict(model.arrays) | {
        "base": base,
        "leaf.value": rounded(model.arrays["leaf.value"], LEAF_BITS, np.round),
        "node.threshold": rounded(model.arrays["node.threshold"], THRESHOLD_BITS, np.ceil),
    }
    shifted = Model(model.kind, model.inputs, model.outputs, model.settings, arrays)
    return _with_check(shifted, X)


def rounded(values: _Array, bits: int, to_integer: Callable[[_Array], _Array]) -> _Array:
    """Round to so many significant bits.

    Parameters
    ----------
    values : ndarray of float64
    bits : int
    to_integer : callable
        `numpy.round` or `numpy.ceil`, say.

    Returns
    -------
    ndarray of float64
        Of the same shape.
    """
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(to_integer(mantissa * 2.0**bits), exponent - bits))


def _with_check(model: Model, X: _Array) -> Model:
    """Store some predictions, by which a damaged file is detected."""
    chosen = export.drawn_for_check(X)
    check = StoredVectors(chosen, model.predict(chosen))
    return Model(model.kind, model.inputs, model.outputs, model.settings, model.arrays, check)


def fit_forest(X: _Array, Y: _Array, inputs: Sequence[str], outputs: Sequence[str], options: Options) -> Model:
    """Grow 50 extra trees whose leaves hold all outputs; a NaN target counts as the worst."""
    from sklearn.ensemble import ExtraTreesRegressor  # type: ignore[import-untyped, unused-ignore]

    filled = np.where(np.isfinite(Y), Y, compress(WORST))
    forest = ExtraTreesRegressor(50, min_samples_leaf=5, random_state=options.seed, n_jobs=1).fit(X, filled)
    return _with_check(export.from_sklearn_forest(forest, list(inputs), list(outputs)), X)


FORMS: dict[str, Form] = {"boosting": fit_boosting, "forest": fit_forest}
"""Ways to train a model of inputs X and targets Y."""
