"""From measurements to a profile: selectors for all that was measured, and how good they are on held-out matrices."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom.bench.measurements import Measurements
from warploom.bench.medians import settings as measured_settings
from warploom.bench.repeatability import Tolerances, tolerances
from warploom.bench.settings import Setting
from warploom.errors import ParameterError
from warploom.prediction import LOSS, REFERENCE, model_inputs, model_name
from warploom.predictor import Model
from warploom.profiles import Profile
from warploom.training.data import UNKNOWN_TOLERANCE, Dataset, family_splits, random_splits
from warploom.training.evaluate import Scores, score
from warploom.training.preparation import fit_preparation, relative_errors
from warploom.training.selector import DEFAULTS, Options, candidates_of, choices, cross_losses, fit

__all__ = ["GEOMETRY", "data_hash", "held_out", "margin", "train"]

GEOMETRY = {"warps": 32, "threads": 32, "elements_per_cache_line": 32}
"""What the features of the measurements assume."""

COVERED = 0.95
"""Share of the held-out rows for which the short list has one of the fastest."""

_log = logging.getLogger(__name__)


def train(
    measurements: Measurements | Sequence[Measurements],
    options: Mapping[str, Options] | None = None,
    *,
    caches: Iterable[str] = ("warm", "cold"),
    splits: bool = True,
    folds: int = 5,
    seeds: Sequence[int] = (0, 1),
    samples: int = 1000,
) -> Profile:
    """Train a selector for each operation, value type, layout and state of the cache that was measured.

    Parameters
    ----------
    measurements : Measurements or sequence of Measurements
        Of one GPU.
    options : mapping from str to Options, optional
        By operation; what is not in it is as in `DEFAULTS`.
    caches : iterable of str
    splits : bool
        Whether the metrics say how good selectors are that have not seen the matrices, or the families of matrices,
        which takes most of the time. The selectors themselves are trained on all matrices.
    folds : int
        Of families.
    seeds : sequence of int
        Of the random splits, each of which holds out a quarter.
    samples : int
        Bootstrap samples for the intervals of the metrics.

    Returns
    -------
    Profile
        ``metrics["selectors"]`` has an entry for each selector; progress is logged.

    Raises
    ------
    ParameterError
        There are no times, or they come from several GPUs.
    """
    parts = [measurements] if isinstance(measurements, Measurements) else list(measurements)
    by_op = DEFAULTS | dict(options or {})
    environment = _environment(parts)
    models: dict[str, Model] = {}
    selectors: dict[str, Any] = {}
    for part in parts:
        within = _within(part)
        for settings in _kinds(part):
            found = {}
            for cache in caches:
                if (settings[0], cache) not in measured_settings(part):
                    continue
                dataset = Dataset.of(part, settings, cache, within=within)
                chosen = by_op[dataset.op]
                name = model_name(dataset.op, dataset.dtype, dataset.layout, cache)
                found[name] = dataset
                models[name], selectors[name] = _train_one(dataset, chosen)
                if splits:
                    selectors[name] |= held_out(dataset, chosen, folds=folds, seeds=seeds, samples=samples)
                _log.info("%s: %s", name, selectors[name])
            if found:
                candidates = list(dict.fromkeys(c for name in found for c in _candidates(models[name])))
                preparation = fit_preparation(list(found.values()), candidates)
                models[f"preparation-{next(iter(found)).rpartition('-')[0]}"] = preparation
                for name, dataset in found.items():
                    errors = relative_errors(preparation, dataset)
                    selectors[name]["preparation_error"] = round(float(np.nanmedian(errors)), 4)
    if not models:
        raise ParameterError("there are no times to train on", argument="measurements")
    return Profile(
        gpu=str(environment.get("gpu", "")),
        compute_capability=_capability(environment),
        cuda=str(environment.get("cuda", "")),
        models=models,
        geometry=GEOMETRY,
        data_hash=data_hash(parts),
        metrics={"selectors": selectors},
    )


def held_out(
    dataset: Dataset, options: Options, *, folds: int = 5, seeds: Sequence[int] = (0, 1), samples: int = 1000
) -> dict[str, Any]:
    """Score selectors on matrices that they have not seen.

    Returns
    -------
    dict
        ``random`` and ``families``: the figures of `warploom.training.evaluate.Scores`; the latter only where there are
        several families.
    """
    scores = {"random": _scored(dataset, options, list(random_splits(dataset, 0.25, seeds)), samples)}
    if len(set(dataset.families)) > 1:
        scores["families"] = _scored(dataset, options, list(family_splits(dataset, folds)), samples)
    return {name: value.as_dict() for name, value in scores.items()}


def _scored(
    dataset: Dataset, options: Options, splits: list[tuple[NDArray[np.intp], NDArray[np.intp]]], samples: int
) -> Scores:
    tests, chosen = [], []
    for train_rows, test_rows in splits:
        tests.append(dataset.rows(test_rows))
        chosen.append(choices(fit(dataset.rows(train_rows), options), tests[-1]))
    return score(tests[0].joined(*tests[1:]), np.concatenate(chosen), samples=samples)


def _train_one(dataset: Dataset, options: Options) -> tuple[Model, dict[str, Any]]:
    candidates = candidates_of(dataset, options)
    loss = cross_losses(dataset, options, candidates)
    model = fit(dataset, options, candidates, loss)
    expected = model.predict(model_inputs(dataset.features, dataset.k, model.inputs))[:, model.outputs.index(LOSS)]
    return model, {
        "form": options.form,
        "seed": options.seed,
        "settings": sorted(set(dataset.settings.tolist())),
        "matrices": len(set(dataset.names)),
        "tolerance": round(float(np.expm1(np.median(dataset.tolerance))), 5),
        "margin": margin(dataset, options, candidates),
        "unsure_loss": float(np.quantile(expected, 0.9)),
    }


def margin(dataset: Dataset, options: Options, candidates: Sequence[str], covered: float = COVERED) -> float:
    """Return how much worse than the best prediction that of a fastest candidate is, for most held-out rows.

    Parameters
    ----------
    dataset : Dataset
    options : Options
    candidates : sequence of str
        Those of the model.
    covered : float
        The share of the rows.

    Returns
    -------
    float
        Difference of compressed logarithms. Fastest are those that cannot be told from the fastest of `candidates`.
    """
    gaps = []
    for train_rows, test_rows in random_splits(dataset, 0.25, (options.seed,)):
        test = dataset.rows(test_rows).columns(candidates)
        model = fit(dataset.rows(train_rows), options, candidates)
        predicted = model.predict(model_inputs(test.features, test.k, model.inputs))[:, 1:]
        predicted = np.where(test.supported, predicted, np.inf)
        near = np.log(test.times / test.best[:, np.newaxis]) <= test.tolerance[:, np.newaxis]
        gaps.append(np.where(near, predicted, np.inf).min(axis=1) - predicted.min(axis=1))
    every = np.concatenate(gaps)
    return float(np.quantile(every[np.isfinite(every)], covered))


def data_hash(parts: Sequence[Measurements]) -> str:
    """Return a hash of the times and of what they are of; the order of the rows does not matter."""
    digest = hashlib.sha256()
    columns = ["matrix", "setting", "cache", "candidate", "run", "median_us", "status"]
    for part in parts:
        plain = part.measurements[columns].astype({n: str for n in columns if n not in ("run", "median_us")})
        digest.update(np.sort(pd.util.hash_pandas_object(plain, index=False).to_numpy()).tobytes())
    return digest.hexdigest()


def _candidates(model: Model) -> list[str]:
    return [name for name in model.outputs if name not in (REFERENCE, LOSS)]


def _kinds(measurements: Measurements) -> list[list[str]]:
    """Return the settings, those together that differ in k only."""
    together: dict[tuple[str, ...], list[str]] = {}
    for name in dict.fromkeys(setting for setting, _ in measured_settings(measurements)):
        setting = Setting.parse(name)
        together.setdefault((setting.op, setting.dtype, setting.layout), []).append(name)
    return list(together.values())


def _within(measurements: Measurements) -> Tolerances:
    try:
        return tolerances(measurements)
    except ParameterError:  # nothing was measured twice
        return Tolerances({}, {}, UNKNOWN_TOLERANCE)


def _environment(parts: Sequence[Measurements]) -> dict[str, Any]:
    environments = [environment for part in parts for environment in part.environments.values()]
    gpus = sorted({str(environment.get("gpu", "")) for environment in environments})
    if len(gpus) != 1:
        listed = ", ".join(gpus) or "none"
        raise ParameterError(f"measurements of one GPU are needed, not of {listed}", argument="measurements")
    return environments[-1]


def _capability(environment: dict[str, Any]) -> tuple[int, int]:
    """Read a compute capability written as ``9.0`` or ``(9, 0)``."""
    digits = re.findall(r"\d+", str(environment.get("compute_capability", "")))
    return (int(digits[0]), int(digits[1])) if len(digits) == 2 else (0, 0)
