"""A profile for the GPU at hand: a short sweep, and corrections to the models of the nearest profile."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom import _core, corpus, features, profiles
from warploom.bench import Measurements, run
from warploom.bench.measure import Limits
from warploom.bench.settings import SPMM, SPMV
from warploom.corpus import Entry
from warploom.errors import DeviceError, ParameterError
from warploom.model_inputs import INPUTS, LOSS, REFERENCE, model_inputs, model_name
from warploom.predictor import Model
from warploom.profiles import Profile
from warploom.training.data import Dataset
from warploom.training.evaluate import losses
from warploom.training.preparation import fit_preparation
from warploom.training.selector import Options, choices, fit_boosting, targets
from warploom.training.train import QUICK, data_hash

__all__ = ["Calibration", "calibrate", "chained", "fine_tuned", "informative", "refine"]

MATRICES_A_MINUTE = 40
"""How many matrices are drawn for each minute; usually more than are measured."""

MOST_NNZ = 2_000_000
"""Larger matrices take too long to make for what they add."""

CORRECTION = Options(iterations=15, rate=0.15, leaves=6, share=0.6)
"""Small trees: there are few matrices to learn from."""

FOLDS = 4

CALIBRATED = ("trees", "network")
"""Kinds of models that can be corrected."""

_Progress = Callable[[int, int, str], None]


@dataclasses.dataclass(frozen=True)
class Calibration:
    """The result of a calibration."""

    profile: Profile
    path: pathlib.Path
    """Where the profile is kept."""
    matrices: int
    """Measured now."""
    shares: Mapping[str, tuple[float, float]]
    """For each selector, the share of the oracle's speed on held-out matrices: before and after correction."""

    def __str__(self) -> str:
        lines = [f"{self.matrices} matrices measured; profile of {self.profile.gpu} written to {self.path}"]
        lines += [
            f"{name}: {before:.1%} of the fastest, now {after:.1%}" for name, (before, after) in self.shares.items()
        ]
        return "\n".join(lines)


def calibrate(
    minutes: float = 10.0,
    *,
    gpu: int = 0,
    settings: Sequence[str] = (*SPMM, *SPMV),
    output: str | os.PathLike[str] | None = None,
    keep: str | os.PathLike[str] | None = None,
    progress: _Progress | None = None,
    model: str = "trees",
) -> Calibration:
    """Measure for some minutes, and correct the models of the nearest profile by what was measured.

    Parameters
    ----------
    minutes : float
        For the measurements; training takes less than a minute more.
    gpu : int
        Number of the GPU.
    settings : sequence of str
        What to measure, such as ``"spmv/float64"``; models of other settings stay as they are.
    output : path-like, optional
        The file; by default where `warploom.plan` finds it, see `warploom.profiles.user_path`.
    keep : path-like, optional
        Folder for the measurements, which a later calibration continues; by default they are discarded.
    progress : callable, optional
        Called as ``progress(done, total, name)`` after each matrix.
    model : {"trees", "network"}
        Which models: more trees learn what trees lack, the last layer what a network lacks.

    Returns
    -------
    Calibration

    Raises
    ------
    DeviceError
        There is no such GPU.
    ParameterError
        Nothing could be measured in this time, or a setting is unknown.
    StorageError
        The profile cannot be written.
    """
    if model not in CALIBRATED:
        raise ParameterError(f"{' and '.join(CALIBRATED)} can be calibrated, not {model!r}", argument="model")
    devices = _core.cuda_info()["devices"]
    if gpu >= len(devices):
        here = f"there is no GPU {gpu} here" if devices else "there is no GPU here"
        raise DeviceError(
            f"{here}, and a profile is made by measuring on one; `warploom plan FILE --gpu H200` predicts without",
            argument="gpu",
        )
    name, capability = devices[gpu]["name"], tuple(devices[gpu]["compute_capability"])
    found = profiles.find(name, capability, model=model)
    if found is None:
        raise ParameterError("there is no profile to start from", argument="gpu")
    with tempfile.TemporaryDirectory(prefix="warploom-") as scratch:
        folder = pathlib.Path(keep or scratch)
        report = run.sweep(
            informative(max(20, int(minutes * MATRICES_A_MINUTE))),
            settings,
            folder,
            gpus=[gpu],
            candidates=_candidates(found.profile),
            limits=Limits(matrix_s=20.0),
            minutes=minutes,
            progress=progress,
        )
        if report.measured + report.resumed == 0:
            raise ParameterError("no matrix could be measured in this time", argument="minutes")
        measurements = Measurements.load(folder)
        profile, shares = refine(found.profile, measurements)
    profile = dataclasses.replace(profile, gpu=name, compute_capability=capability)
    path = pathlib.Path(output) if output is not None else profiles.user_path(name, model)
    path.parent.mkdir(parents=True, exist_ok=True)
    profiles.save(path, profile)
    return Calibration(profile, path, report.measured + report.resumed, shares)


def informative(count: int, measurements: Measurements | None = None) -> list[Entry]:
    """Choose constructed matrices that differ from each other as much as they can.

    Parameters
    ----------
    count : int
        How many at most.
    measurements : Measurements, optional
        Whose matrices to choose from; by default the shipped ones.

    Returns
    -------
    list of Entry
        Each is the one farthest from those before it, in the space of the models' inputs.
    """
    known = (measurements or Measurements.load("h200")).only().matrices
    known = known[(known["source"].astype(str) == "construction") & (known["nnz"] <= MOST_NNZ)]
    known = known.sort_values("matrix")
    values = {
        f"{of}_{n}": known[f"{of}_{n}"].to_numpy(np.float64) for of in features.sets() for n in features.names(of)
    }
    X = model_inputs(values, np.ones(len(known)), INPUTS)
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    names = known["matrix"].astype(str).to_numpy()
    return [corpus.find(names[i]) for i in _farthest_first(X, count)]


def _farthest_first(X: NDArray[np.float64], count: int) -> list[int]:
    """Start in the middle, and continue with the point farthest from all before."""
    distance = np.square(X).sum(axis=1)
    chosen = [int(distance.argmin())] if len(X) else []
    distance = np.full(len(X), np.inf)
    while len(chosen) < min(count, len(X)):
        distance = np.minimum(distance, np.square(X - X[chosen[-1]]).sum(axis=1))
        chosen.append(int(distance.argmax()))
    return chosen


def _candidates(profile: Profile) -> list[str]:
    """Names of all candidates that the selectors of a profile know."""
    selectors = profile.metrics.get("selectors", {})
    known = (name for selector in selectors for name in profile.models[selector].outputs)
    return sorted(set(known) - {REFERENCE, LOSS})


def refine(profile: Profile, measurements: Measurements) -> tuple[Profile, dict[str, tuple[float, float]]]:
    """Correct the selectors of a profile by measurements of another GPU, or by more of the same.

    Parameters
    ----------
    profile : Profile
    measurements : Measurements

    Returns
    -------
    Profile
        With corrections where they improve choices on held-out matrices, and in any case the level of the times and the
        preparation as measured. Selectors of settings that were not measured are kept.
    dict
        For each selector that was measured: the share of the oracle's speed on held-out matrices, before and after.
    """
    models: dict[str, Model] = dict(profile.models)
    shares: dict[str, tuple[float, float]] = {}
    metrics = dict(profile.metrics)
    metrics["selectors"] = {name: dict(facts) for name, facts in profile.metrics["selectors"].items()}
    present = measurements.measurements["setting"].astype(str).unique()
    by_preparation: dict[str, list[Dataset]] = {}
    for name, facts in metrics["selectors"].items():
        settings = [setting for setting in facts["settings"] if setting in present]
        cache = name.rpartition("-")[2]
        setting = name.removeprefix(QUICK)
        dataset = _dataset(measurements, settings, cache)
        if dataset is None or setting != model_name(dataset.op, dataset.dtype, dataset.layout, cache):
            continue
        base = profile.models[name]
        before, after = _held_out(base, dataset)
        models[name] = _corrected(base, dataset) if after > before else _raised(base, dataset)
        shares[name] = (before, max(before, after))
        facts["calibrated"] = {"matrices": len(set(dataset.names)), "share_before": before, "share": shares[name][1]}
        if name == setting:
            by_preparation.setdefault(f"preparation-{name.rpartition('-')[0]}", []).append(dataset)
    for name, datasets in by_preparation.items():
        models[name] = _preparation(profile.models[name], datasets)
    if any(models[name] is not profile.models[name] for name in by_preparation):
        metrics.pop("preparation", None)  # it says what the models were fitted to before
    if not shares:
        raise ParameterError("the measurements have no setting that the profile knows", argument="measurements")
    hashed = data_hash([measurements])
    return dataclasses.replace(profile, models=models, metrics=metrics, data_hash=hashed), shares


def _dataset(measurements: Measurements, settings: Sequence[str], cache: str) -> Dataset | None:
    if not settings:
        return None
    try:
        return Dataset.of(measurements, settings, cache)
    except ParameterError:  # nothing has a time
        return None


def _held_out(base: Model, dataset: Dataset) -> tuple[float, float]:
    """Return the share of the oracle's speed before and after correction, on matrices that correction has not seen."""
    from sklearn.model_selection import GroupKFold  # type: ignore[import-untyped, unused-ignore]

    groups = len(set(dataset.groups.tolist()))
    before = _share(choices(base, dataset), dataset)
    if groups < 2 * FOLDS:
        return before, before
    chosen = np.zeros(len(dataset), dtype=np.intp)
    for train, test in GroupKFold(FOLDS).split(chosen, groups=dataset.groups):
        chosen[test] = choices(_corrected(base, dataset.rows(train)), dataset.rows(test))
    return before, _share(chosen, dataset)


def _share(chosen: NDArray[np.intp], dataset: Dataset) -> float:
    lost = losses(dataset, chosen)
    return float(np.exp(-np.log1p(lost[np.isfinite(lost)]).mean()))


def _corrected(base: Model, dataset: Dataset) -> Model:
    """Learn the residuals of a model: by more trees, or by the last layer of a network."""
    left = _left(base, dataset)
    left[:, ~np.isfinite(left).any(axis=0)] = 0.0  # what was not measured stays as it is
    X = model_inputs(dataset.features, dataset.k, base.inputs)
    if base.kind == "network":
        return fine_tuned(base, X, left)
    return chained(base, fit_boosting(X, left, base.inputs, base.outputs, CORRECTION))


def _raised(base: Model, dataset: Dataset) -> Model:
    """Correct the level of the times alone, which changes no choice."""
    shift = np.zeros(len(base.outputs))
    column = base.outputs.index(REFERENCE)
    shift[column] = np.nanmedian(_left(base, dataset)[:, column])
    if base.kind == "network":
        return _with_last_layer(base, lambda weight, bias: (weight, bias + shift))
    arrays = dict(base.arrays) | {"base": base.arrays["base"] + shift}
    return Model(base.kind, base.inputs, base.outputs, base.settings, arrays)


def fine_tuned(base: Model, X: NDArray[np.float64], left: NDArray[np.float64]) -> Model:
    """Change the last layer of a network so that it learns residuals, as little as pays by leave-one-out.

    Parameters
    ----------
    base : Model
        A network with ReLU between the layers.
    X : ndarray of float64, shape (n, inputs)
    left : ndarray of float64, shape (n, outputs)
        What the network lacks; NaN where it is not known.

    Returns
    -------
    Model
        The ridge regression of each output on the last hidden layer is added to the layer after it.
    """
    from sklearn.linear_model import RidgeCV  # type: ignore[import-untyped, unused-ignore]

    hidden = _last_hidden(base, X)  # members, n, neurons
    members, _, neurons = hidden.shape
    together = np.concatenate(list(hidden), axis=1) / members  # scores are means over members
    coefficients, constants = np.zeros((left.shape[1], members * neurons)), np.zeros(left.shape[1])
    for column, values in enumerate(left.T):
        known = np.isfinite(values)
        if known.sum() < 2 * FOLDS:
            continue
        ridge = RidgeCV(alphas=np.logspace(-1, 4, 11)).fit(together[known], values[known])
        coefficients[column], constants[column] = ridge.coef_, ridge.intercept_
    more = coefficients.reshape(-1, members, neurons).transpose(1, 0, 2)
    return _with_last_layer(base, lambda weight, bias: (weight + more, bias + constants))


def _last_hidden(base: Model, X: NDArray[np.float64]) -> NDArray[np.float64]:
    a = base.arrays
    z = np.stack([(X - a["input.mean"]) / a["input.scale"]] * len(a["layer.0.weight"]))
    for i in range(_num_layers(base) - 1):
        weight, bias = a[f"layer.{i}.weight"].astype(np.float64), a[f"layer.{i}.bias"].astype(np.float64)
        z = np.maximum(z @ weight.transpose(0, 2, 1) + bias[:, np.newaxis], 0.0)
    return z


def _num_layers(base: Model) -> int:
    return sum(name.endswith(".weight") for name in base.arrays)


def _with_last_layer(base: Model, change: Callable[[Any, Any], tuple[Any, Any]]) -> Model:
    """Return a network whose last layer's weights and biases are changed, without stored vectors."""
    last = f"layer.{_num_layers(base) - 1}"
    changed = change(base.arrays[f"{last}.weight"], base.arrays[f"{last}.bias"])
    arrays = dict(base.arrays)
    for name, values in zip(("weight", "bias"), changed, strict=True):
        arrays[f"{last}.{name}"] = np.ascontiguousarray(values, dtype=np.float32)
    return Model(base.kind, base.inputs, base.outputs, base.settings, arrays)


def _left(base: Model, dataset: Dataset) -> NDArray[np.float64]:
    """Return targets less predictions; NaN where nothing was measured."""
    present = [name for name in base.outputs if name in dataset.candidates]
    known = pd.DataFrame(targets(dataset, present), columns=[REFERENCE, *present])
    X = model_inputs(dataset.features, dataset.k, base.inputs)
    return np.asarray(known.reindex(columns=list(base.outputs)).to_numpy(np.float64) - base.predict(X))


def _preparation(base: Model, datasets: Sequence[Dataset]) -> Model:
    """Fit preparation again to what was measured: it depends on both the GPU and its host."""
    measured = {name for dataset in datasets for name in dataset.candidates}
    if not set(base.outputs) <= measured:
        return base
    return fit_preparation(datasets, list(base.outputs))


def chained(first: Model, second: Model) -> Model:
    """Return an ensemble whose sums are those of two together.

    Parameters
    ----------
    first, second : Model
        Boosted trees of the same inputs and outputs, trained by the same library.

    Raises
    ------
    ParameterError
        They are not such models.
    """
    same = ("kind", "inputs", "outputs", "settings")
    if any(getattr(first, name) != getattr(second, name) for name in same) or first.settings.get("combine") != "sum":
        raise ParameterError("the models are not sums of trees with the same inputs and outputs", argument="second")
    a, b = first.arrays, second.arrays
    is_leaf = b["node.feature"] == -1
    arrays: dict[str, Any] = {
        "tree.offset": np.concatenate([a["tree.offset"], b["tree.offset"][1:] + a["tree.offset"][-1]]),
        "node.left": np.concatenate([a["node.left"], b["node.left"] + is_leaf * len(a["leaf.value"])]),
        "base": a["base"] + b["base"],
    }
    for name in ("node.feature", "node.threshold", "node.right", "leaf.value", "tree.score"):
        arrays[name] = np.concatenate([a[name], b[name]])
    types = {name: a[name].dtype for name in arrays}
    ready = {name: np.ascontiguousarray(values, dtype=types[name]) for name, values in arrays.items()}
    return Model(first.kind, first.inputs, first.outputs, first.settings, ready)
