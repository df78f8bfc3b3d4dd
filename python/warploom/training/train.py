"""From measurements to a profile: selectors for all measured settings, and their scores on held-out matrices."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom import _core
from warploom.bench.measurements import Measurements
from warploom.bench.medians import are_widely_measured, is_vendor
from warploom.bench.medians import settings as measured_settings
from warploom.bench.repeatability import Tolerances, tolerances
from warploom.bench.settings import Setting
from warploom.candidates import OPERATIONS
from warploom.errors import ParameterError
from warploom.model_inputs import LOSS, REFERENCE, SIZES, SPMV_INPUTS, model_name
from warploom.predictor import Model
from warploom.profiles import Profile
from warploom.training.between import rows_between, rows_between_each
from warploom.training.carried_over import carried_over, completed
from warploom.training.data import UNKNOWN_TOLERANCE, Dataset, family_splits, random_folds, united
from warploom.training.evaluate import score
from warploom.training.preparation import fit_preparation, relative_errors
from warploom.training.selector import (
    DEFAULTS,
    Options,
    Split,
    candidates_of,
    choices_measured,
    doubts,
    expected_losses,
    fit,
    options_of,
    unseen_losses,
    unseen_predictions,
)

__all__ = [
    "FOLDS",
    "GEOMETRY",
    "QUICK",
    "HeldOut",
    "Unseen",
    "candidates_known",
    "data_hash",
    "datasets_of",
    "facts_of",
    "further_rows",
    "held_out",
    "kinds_of_settings",
    "margin",
    "of_first_gpu",
    "of_its_type",
    "predicted_by_trees",
    "spared",
    "tolerances_of",
    "train",
    "trained_on",
    "widely_measured",
]

GEOMETRY = {"warps": 32, "threads": 32, "elements_per_cache_line": 32}
"""The geometry of the features of the measurements."""

COVERED = 0.95
"""Share of the held-out rows for which the short list has one of the fastest."""

AIM = 0.99
"""Target for the oracle's share on held-out matrices, with the short lists of unsure ones measured."""

AIM_FURTHER = 0.98
"""The same for further sweeps, which are of matrices that are harder to choose for."""

QUICK = "quick-"
"""What the names of selectors begin with that read the features of SpMV only."""

FOLDS = 4

SURE = (0.9, 0.85, 0.8, 0.75, 0.7)
"""Shares of the training matrices whose prediction counts as sure: the first that reaches `AIM`, or the last."""

_log = logging.getLogger(__name__)


def train(
    measurements: Measurements | Sequence[Measurements],
    options: Mapping[str, Options] | None = None,
    *,
    caches: Iterable[str] = ("warm", "cold"),
    splits: bool = True,
    folds: int = FOLDS,
    family_folds: int = 5,
    samples: int = 1000,
    keep: dict[str, HeldOut] | None = None,
) -> Profile:
    """Train a selector for each operation, value type, layout and state of the cache that was measured.

    Parameters
    ----------
    measurements : Measurements or sequence of Measurements
        Sweeps, each on one GPU, which may have tried different candidates: see `warploom.training.data.united`. The
        profile is that of the first one's GPU; sweeps on other GPUs say how well it chooses there, and what candidates
        take that only they have tried: see `warploom.training.carried_over`.
    options : mapping from str to Options, optional
        By operation; those of `DEFAULTS` for an operation that is not in it.
    caches : iterable of str
    splits : bool
        Whether the metrics say how good selectors are that have not seen the matrices, or the families of matrices,
        which takes half of the time. The selectors themselves are trained on all matrices.
    folds : int
        Number of folds of random matrices: each selector that is scored has not seen 1 / folds of them.
    family_folds : int
        Number of folds of families.
    samples : int
        Bootstrap samples for the intervals of the metrics.
    keep : dict, optional
        Receives what is predicted for held-out matrices and families, by the names of the selectors: networks are
        blended by it.

    Returns
    -------
    Profile
        ``metrics["selectors"]`` has an entry for each selector; progress is logged. ``elsewhere`` of an entry has, by
        the names of other GPUs, what `warploom.training.evaluate.Scores` says of choices that were made without the
        families of the matrices, and without any measurement on that GPU.

    Raises
    ------
    ParameterError
        There are no times, or a sweep has those of several GPUs.
    """
    given = [measurements] if isinstance(measurements, Measurements) else list(measurements)
    parts, others = of_first_gpu(given)
    elsewhere = [(str(environment_of([part])["gpu"]), _by_name(datasets_of([part], tuple(caches)))) for part in others]
    by_op = DEFAULTS | dict(options or {})
    environment = environment_of(parts)
    models: dict[str, Model] = {}
    selectors: dict[str, Any] = {}
    for found in datasets_of(parts, tuple(caches), elsewhere=others):
        for name, dataset in found.items():
            chosen = options_of(dataset, by_op[dataset.op])
            at_random = list(random_folds(dataset, folds, chosen.seed))
            further = further_rows(dataset, at_random)
            unseen = Unseen.of(dataset, chosen, at_random, further)
            all_further = rows_between(dataset)
            models[name], selectors[name] = _train_one(dataset, chosen, unseen, all_further)
            if splits:
                families = _of_families(dataset, chosen, family_folds)
                if keep is not None:
                    keep[name] = HeldOut(unseen, families)
                selectors[name] |= held_out(dataset, unseen, families, samples=samples)
                if families is not None:
                    there = {
                        gpu: _scored_elsewhere(dataset, families, of[name], samples)
                        for gpu, of in elsewhere
                        if name in of
                    }
                    selectors[name] |= {"elsewhere": there} if any(there.values()) else {}
            _log.info("%s: %s", name, selectors[name])
            if not set(models[name].inputs) <= set(SPMV_INPUTS):
                quick = f"{QUICK}{name}"
                # Quick ones are asked where products are short, so that more trees would take longer than they save.
                models[quick], selectors[quick] = _train_quick(
                    dataset, by_op[dataset.op], models[name], unseen, at_random, further, all_further
                )
                _log.info("%s: %s", quick, selectors[quick])
        candidates = list(dict.fromkeys(c for name in found for c in candidates_known(models[name])))
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
        data_hash=data_hash(trained_on(parts, others)),
        metrics={"selectors": selectors},
    )


def predicted_by_trees(
    measurements: Measurements | Sequence[Measurements],
    *,
    caches: Iterable[str] = ("warm", "cold"),
    folds: int = FOLDS,
    family_folds: int = 5,
) -> dict[str, HeldOut]:
    """Return what `train` keeps of its selectors, without training these: it takes half as long."""
    parts, others = of_first_gpu([measurements] if isinstance(measurements, Measurements) else list(measurements))
    kept: dict[str, HeldOut] = {}
    for found in datasets_of(parts, tuple(caches), elsewhere=others):
        for name, dataset in found.items():
            options = options_of(dataset)
            at_random = list(random_folds(dataset, folds, options.seed))
            unseen = Unseen.of(dataset, options, at_random, further_rows(dataset, at_random))
            kept[name] = HeldOut(unseen, _of_families(dataset, options, family_folds))
    return kept


def _of_families(dataset: Dataset, options: Options, folds: int) -> Unseen | None:
    """Return predictions for families left out, or nothing where there is one family only."""
    if len(set(dataset.families)) < 2:
        return None
    by_family = list(family_splits(dataset, folds))
    return Unseen.of(dataset, options, by_family, further_rows(dataset, by_family))


def of_first_gpu(parts: Sequence[Measurements]) -> tuple[list[Measurements], list[Measurements]]:
    """Return the sweeps on the GPU of the first one, and the others.

    Raises
    ------
    ParameterError
        A sweep has times of several GPUs, or of none.
    """
    gpus = [environment_of([part])["gpu"] for part in parts]
    same = [gpu == gpus[0] for gpu in gpus]
    return [p for p, s in zip(parts, same, strict=True) if s], [p for p, s in zip(parts, same, strict=True) if not s]


def trained_on(parts: Sequence[Measurements], others: Sequence[Measurements]) -> list[Measurements]:
    """Return sweeps on one GPU, and those on other GPUs that have tried candidates which they have not."""

    def tried(part: Measurements) -> set[tuple[str, str, str]]:
        timed = part.measurements[part.measurements["median_us"].notna() & part.measurements["op"].isin(OPERATIONS)]
        kinds = timed[["dtype", "layout", "candidate"]].astype(str).drop_duplicates()
        return {row for row in kinds.itertuples(index=False, name=None) if not is_vendor(row[-1])}

    here = {kind for part in parts for kind in tried(part)}
    settings = {kind[:2] for kind in here}
    return [*parts, *(part for part in others if any(kind[:2] in settings for kind in tried(part) - here))]


def _by_name(kinds: Sequence[dict[str, Dataset]]) -> dict[str, Dataset]:
    return {name: dataset for kind in kinds for name, dataset in kind.items()}


def _scored_elsewhere(here: Dataset, unseen: Unseen, there: Dataset, samples: int) -> dict[str, Any]:
    """Score what is chosen for the matrices of another data set that this one has too; nothing if there are none."""
    place = {(name, k): row for row, (name, k) in enumerate(zip(here.names.tolist(), here.k.tolist(), strict=True))}
    rows = np.array([place.get(key, -1) for key in zip(there.names.tolist(), there.k.tolist(), strict=True)], dtype=int)
    columns = np.array([here.candidates.index(c) if c in here.candidates else -1 for c in there.candidates], dtype=int)
    predicted = np.where(columns >= 0, unseen.predicted[np.ix_(rows, columns)], np.inf)
    predicted = np.where(there.supported, predicted, np.inf)
    known = (rows >= 0) & np.isfinite(predicted).any(axis=1)
    if not known.any():
        return {}
    chosen = predicted[known].argmin(axis=1)
    return score(there.rows(known), chosen, samples=samples).as_dict() | {"matrices": len(set(there.names[known]))}


def datasets_of(
    parts: Sequence[Measurements],
    caches: Sequence[str],
    only: tuple[str, ...] = ("",),
    elsewhere: Sequence[Measurements] = (),
) -> list[dict[str, Dataset]]:
    """Return what selectors are trained on.

    Parameters
    ----------
    parts : sequence of Measurements
        Sweeps.
    caches : sequence of str
    only : tuple of str
        What the names of settings begin with.
    elsewhere : sequence of Measurements
        Sweeps on other GPUs, for candidates that `parts` have not tried: see `warploom.training.carried_over`.

    Returns
    -------
    list of dict from str to Dataset
        By the names of the models; those together that differ in the state of the cache only. Rows that lack most
        kernels are left out (`widely_measured`), and those of one sweep get the candidates of others
        (`warploom.training.carried_over.completed`). Those of bfloat16 have the rows of float16 as further sweeps: the
        kernels and the bytes are the same, and few matrices are measured in both.
    """
    named: dict[str, dict[str, list[Dataset]]] = {}
    for part in parts:
        within = tolerances_of(part)
        measured = set(measured_settings(part))
        for settings in kinds_of_settings(part):
            for cache in caches if settings[0].startswith(only) else ():
                if any((setting, cache) in measured for setting in settings):
                    dataset = widely_measured(Dataset.of(part, settings, cache, within=within))
                    name = model_name(dataset.op, dataset.dtype, dataset.layout, cache)
                    named.setdefault(name.rpartition("-")[0], {}).setdefault(name, []).append(dataset)
    if elsewhere:
        others = _by_name(datasets_of(elsewhere, caches, only))
        for of_kind in named.values():
            for name, found in of_kind.items():
                if name in others:
                    tried = {candidate for dataset in found for candidate in dataset.candidates}
                    found[:] = [carried_over(dataset, others[name], tried) for dataset in found]
    for kind, of_kind in named.items():
        if "-bfloat16" in kind:
            for name, found in of_kind.items():
                other = named.get(kind.replace("bfloat16", "float16"), {}).get(name.replace("bfloat16", "float16"), [])
                found += [dataclasses.replace(dataset, dtype="bfloat16") for dataset in other]
    return [{name: completed(united(found)) for name, found in kind.items()} for kind in named.values()]


def widely_measured(dataset: Dataset) -> Dataset:
    """Return the rows for which at least half of the kernels were measured, or reached the time limit.

    Transposes and parts of matrices are measured for other models, with a few kernels only: the fastest of these
    does not represent the others.
    """
    return dataset.rows(are_widely_measured(dataset.candidates, dataset.supported))


@dataclasses.dataclass(frozen=True)
class Unseen:
    """Predictions of selectors for matrices that they have not seen.

    Attributes
    ----------
    predicted : ndarray of float64, shape (n, candidates)
        See `warploom.training.selector.unseen_predictions`.
    loss : ndarray of float64, shape (n,)
        Losses of the choices.
    expected : ndarray of float64, shape (n,)
        Predicted losses.
    sure : float
        Share of the rows that count as sure.
    """

    predicted: NDArray[np.float64]
    loss: NDArray[np.float64]
    expected: NDArray[np.float64]
    sure: float = SURE[0]

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        options: Options,
        splits: Sequence[Split],
        between: Sequence[Dataset | None] | None = None,
    ) -> Unseen:
        """Train a selector for each split, every row being held out by one of them; `between` as for predictions."""
        predicted = unseen_predictions(dataset, options, splits, between)
        loss = unseen_losses(dataset, predicted)
        return cls(predicted, loss, expected_losses(dataset, loss, options, splits)).as_sure_as_may_be(dataset)

    def as_sure_as_may_be(self, dataset: Dataset) -> Unseen:
        """Return these with the largest share of `SURE` that reaches `AIM`, and `AIM_FURTHER` on further sweeps."""
        found = self
        for sure in SURE:
            found = dataclasses.replace(found, sure=sure)
            chosen = found.choices(dataset)
            reached = score(dataset, chosen, samples=1)["oracle_share"].value >= AIM
            for sweep in np.unique(dataset.sweeps)[1:]:
                part = dataset.sweeps == sweep
                share = score(dataset.rows(part), chosen[part], samples=1)["oracle_share"].value
                reached = reached and share >= AIM_FURTHER
            if reached:
                break
        return found

    @property
    def doubt(self) -> NDArray[np.float64]:
        """How unsure the predictions are: see `warploom.training.selector.doubts`."""
        return doubts(self.predicted, self.expected)

    @property
    def unsure_doubt(self) -> float:
        """The doubt that only the unsure rows exceed."""
        return float(np.quantile(self.doubt, self.sure))

    def choices(self, dataset: Dataset) -> NDArray[np.intp]:
        """Return the choices with the short lists of unsure predictions measured."""
        unsure = self.doubt > self.unsure_doubt
        return choices_measured(dataset, self.predicted, unsure, self.margin(dataset), _core.MAX_MEASURED)

    def margin(self, dataset: Dataset) -> float:
        """Return `margin` of the rows whose short list is measured."""
        unsure = self.doubt >= self.unsure_doubt
        return margin(dataset.rows(unsure), self.predicted[unsure])


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """What selectors of one setting predict that have not seen a row's matrix, or its family."""

    unseen: Unseen
    families: Unseen | None


def held_out(
    dataset: Dataset, unseen: Unseen, families: Unseen | None = None, *, samples: int = 1000
) -> dict[str, Any]:
    """Score selectors on matrices that they have not seen.

    Parameters
    ----------
    dataset : Dataset
    unseen : Unseen
        Those of random splits.
    families : Unseen, optional
        Those of families left out.
    samples : int
        As for `train`.

    Returns
    -------
    dict
        ``random`` and ``families``: the figures of `warploom.training.evaluate.Scores`; the latter only where there are
        several families. ``random_measured`` and ``families_measured``: the same with the short lists of unsure
        predictions measured, and ``measured``, the share of the rows. These are of the first sweep; ``further`` has the
        same for the others, where there are any of the same value type.
    """
    splits = {"random": unseen} | ({} if families is None else {"families": families})
    within, limit = unseen.margin(dataset), unseen.unsure_doubt
    of_sweeps: list[dict[str, Any]] = [{}, {}]
    further_rows = (dataset.sweeps > 0) & of_its_type(dataset)
    for name, of in splits.items():
        unsure = of.doubt > limit
        alone = of.predicted.argmin(axis=1)
        measured = choices_measured(dataset, of.predicted, unsure, within, _core.MAX_MEASURED)
        for found, rows in zip(of_sweeps, (dataset.sweeps == 0, further_rows), strict=True):
            if rows.any():
                part = dataset.rows(rows)
                found[name] = score(part, alone[rows], samples=samples).as_dict()
                found[f"{name}_measured"] = score(part, measured[rows], samples=samples).as_dict() | {
                    "measured": round(float(unsure[rows].mean()), 4)
                }
    first, further = of_sweeps
    return first | ({"further": further} if further else {})


def further_rows(dataset: Dataset, splits: Sequence[Split]) -> list[Dataset | None]:
    """Return `warploom.training.between.rows_between` of the rows that each split trains on."""
    return rows_between_each([dataset.rows(train) for train, _ in splits])


def _train_one(
    dataset: Dataset, options: Options, unseen: Unseen, between: Dataset | None
) -> tuple[Model, dict[str, Any]]:
    described = {"form": options.form, "seed": options.seed} | facts_of(dataset, unseen)
    return fit(dataset, options, candidates_of(dataset, options), unseen.loss, between), described


def facts_of(dataset: Dataset, unseen: Unseen) -> dict[str, Any]:
    """Return what plans have to know of a selector, and what it was trained on."""
    return {
        "settings": sorted(set(dataset.settings[of_its_type(dataset)].tolist())),
        "matrices": len(set(dataset.names)),
        "matrices_of_sweeps": [len(set(dataset.names[dataset.sweeps == sweep])) for sweep in np.unique(dataset.sweeps)],
        "tolerance": round(float(np.expm1(np.median(dataset.tolerance))), 5),
        "margin": unseen.margin(dataset),
        "unsure_doubt": unseen.unsure_doubt,
        "sizes": {name: _range(size(dataset.features, dataset.k)) for name, size in SIZES.items()},
    }


def of_its_type(dataset: Dataset) -> NDArray[np.bool_]:
    """Return which rows were measured with the value type of the data set: see `datasets_of`."""
    return np.array([Setting.parse(name).dtype == dataset.dtype for name in dataset.settings], dtype=np.bool_)


def _train_quick(
    dataset: Dataset,
    options: Options,
    full: Model,
    unseen: Unseen,
    splits: Sequence[Split],
    further: Sequence[Dataset | None],
    between: Dataset | None,
) -> tuple[Model, dict[str, Any]]:
    """Train the selector that reads row lengths only, over the candidates of the full one.

    ``loss_spared`` of its metrics is the share of its losses on held-out matrices that the full one does not have.
    """
    inputs = tuple(name for name in SPMV_INPUTS if name in full.inputs)
    quick = dataclasses.replace(options, inputs=inputs, iterations=(options.iterations + 1) // 2)
    without = Unseen.of(dataset, quick, splits, further)
    facts = {"form": quick.form, "seed": quick.seed} | facts_of(dataset, without) | spared(without, unseen)
    return fit(dataset, quick, candidates_known(full), without.loss, between), facts


def spared(quick: Unseen, full: Unseen) -> dict[str, float]:
    """Return the mean loss of the selector that reads row lengths only, and the share that the full one spares."""
    losses = {name: float(np.nanmean(of.loss)) for name, of in (("quick", quick), ("full", full))}
    share = max(0.0, 1 - losses["full"] / losses["quick"]) if losses["quick"] > 0 else 0.0
    return {"mean_loss": round(losses["quick"], 5), "loss_spared": round(share, 4)}


def _range(values: NDArray[np.float64]) -> list[float]:
    return [float(values.min()), float(values.max())]


def margin(dataset: Dataset, predicted: NDArray[np.float64], covered: float = COVERED) -> float:
    """Return by how much the prediction of a fastest candidate exceeds the best prediction, for most held-out rows.

    Parameters
    ----------
    dataset : Dataset
    predicted : ndarray of float64, shape (n, candidates)
        See `warploom.training.selector.unseen_predictions`.
    covered : float
        The share of the rows.

    Returns
    -------
    float
        Difference of compressed logarithms. The fastest candidates are the predicted near-ties of the fastest one.
    """
    times = np.where(np.isfinite(predicted) & np.isfinite(dataset.times), dataset.times, np.inf)
    least = times.min(axis=1)
    known = np.isfinite(least)
    near = times[known] <= (least * np.exp(dataset.tolerance))[known, np.newaxis]
    gaps = np.where(near, predicted[known], np.inf).min(axis=1) - predicted[known].min(axis=1)
    return float(np.quantile(gaps, covered))


def data_hash(parts: Sequence[Measurements]) -> str:
    """Return a hash of the times with their matrices, settings and candidates, whatever the order of the rows.

    Those of sampled products, which nothing is trained on, do not count.
    """
    digest = hashlib.sha256()
    columns = ["matrix", "setting", "cache", "candidate", "run", "median_us", "status"]
    for part in parts:
        trained_on = part.measurements.loc[part.measurements["op"].isin(OPERATIONS), columns]
        plain = trained_on.astype({n: str for n in columns if n not in ("run", "median_us")})
        digest.update(np.sort(pd.util.hash_pandas_object(plain, index=False).to_numpy()).tobytes())
    return digest.hexdigest()


def candidates_known(model: Model) -> list[str]:
    """Return the candidates that a selector chooses among."""
    return [name for name in model.outputs if name not in (REFERENCE, LOSS)]


def kinds_of_settings(measurements: Measurements) -> list[list[str]]:
    """Return the settings, those together that differ in k only."""
    together: dict[tuple[str, ...], list[str]] = {}
    for name in dict.fromkeys(setting for setting, _ in measured_settings(measurements)):
        setting = Setting.parse(name)
        together.setdefault((setting.op, setting.dtype, setting.layout), []).append(name)
    return list(together.values())


def tolerances_of(measurements: Measurements) -> Tolerances:
    """Return within what times are near-ties; `UNKNOWN_TOLERANCE` where nothing was measured twice."""
    try:
        return tolerances(measurements)
    except ParameterError:  # nothing was measured twice
        return Tolerances({}, {}, UNKNOWN_TOLERANCE)


def environment_of(parts: Sequence[Measurements]) -> dict[str, Any]:
    """Return what sweeps on one GPU were measured on, the last of their environments.

    Raises
    ------
    ParameterError
        They have times of several GPUs, or of none.
    """
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
