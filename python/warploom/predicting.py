"""Selection by prediction: features and a trained model instead of measurements."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from warploom import _core, features, permutations, profiles
from warploom._device import Device, load_cusparse
from warploom.candidates import Candidate, checked_patterns, matches, parse
from warploom.errors import OutOfMemoryError, ParameterError
from warploom.explanation import Explanation, Row
from warploom.selection import (
    SEARCHED_ROWS,
    MeasureSelector,
    MeasuringSession,
    Problem,
    Selection,
    default_kernel,
    is_redundant,
)

if TYPE_CHECKING:
    from warploom.plan import Plan
    from warploom.selection import Progress

__all__ = ["PredictSelector", "predict", "selector_for"]

MEASURED = 6
"""Most candidates that are measured where the prediction is unsure or is to be verified, beside the vendor's."""

_TRIES = 5
"""Candidates that are tried one after the other where memory does not suffice."""


@dataclasses.dataclass(frozen=True)
class Source:
    """A trained selector, and where it comes from."""

    selector: _core.Selector
    gpu: str
    note: str = ""
    """Empty, or that it is for another GPU than the one at hand."""


def selector_for(device: Device) -> Source | None:
    """Return what predicts for a device, or None if no profile does."""
    if device.kind != "cuda":
        return None
    gpu = _core.cuda_info()["devices"][device.ordinal]
    return _source(gpu["name"], tuple(gpu["compute_capability"]))


@functools.lru_cache(maxsize=8)
def _source(gpu: str, capability: tuple[int, int] | None) -> Source | None:
    found = profiles.find(gpu, capability)
    return None if found is None else Source(found.profile.selector(), found.profile.gpu, found.note)


class PredictSelector:
    """Predicts how long every candidate takes, and takes the best for the number of calls.

    Where the prediction is unsure, or comes from another GPU's profile, the few candidates that may be the fastest are
    measured.

    Parameters
    ----------
    source : Source
        The models.
    calls : float, optional
        Products that will be computed with the plan: what preparation costs is shared out among them. If not given, so
        many that it does not matter.
    verify : bool
        Measure the choice against the vendor's candidates and step back if it loses.
    """

    def __init__(self, source: Source, *, calls: float | None = None, verify: bool = False) -> None:
        self.source = source
        self.calls = calls
        self.verify = verify

    def select(self, problem: Problem, patterns: str | Sequence[str] | None, progress: Progress | None) -> Selection:
        """Choose among the candidates that the models know and the patterns match.

        Raises
        ------
        ParameterError
            If there are none, or none of them can run this problem.
        """
        vendor = load_cusparse() is None  # no reason against it
        values = _features(problem, self.source.selector)
        kind = problem.device.kind
        choice, proxy = _choose(self.source.selector, problem, values, patterns, self.calls, vendor, kind)
        unsure = choice.unsure or bool(proxy) or bool(self.source.note)
        measured: dict[str, Row] = {}
        plan: Plan | None = None
        if self.verify or (unsure and self._is_worth_measuring(choice)):
            measured, plan = self._measure(problem, self._to_measure(choice, unsure), progress)
        if plan is None:
            plan = _first_that_fits(problem, choice.names())
        explanation = functools.partial(
            _explain, problem, choice, plan.candidate, measured, values, self.source, proxy, self.calls
        )
        return Selection(plan.candidate, explanation, plan)

    def _is_worth_measuring(self, choice: _core.Choice) -> bool:
        """Measuring costs some hundred products and the preparation of each candidate."""
        best = choice.prediction()
        return self.calls is None or self.calls * best.time_us > 2e3 * MEASURED + 300 * MEASURED * best.time_us

    def _to_measure(self, choice: _core.Choice, unsure: bool) -> list[str]:
        names = [choice.candidate, *(choice.shortlist[:MEASURED] if unsure else ())]
        if self.verify or choice.outside:
            names += itertools.islice(filter(_is_vendor, choice.names()), 3)
        return list(dict.fromkeys(names))

    def _measure(
        self, problem: Problem, names: Sequence[str], progress: Progress | None
    ) -> tuple[dict[str, Row], Plan | None]:
        """Measure a few candidates, and keep the plan that costs least; those that fail are left out."""
        session = MeasuringSession(problem, MeasureSelector(repeats=20, budget_ms=10, calls=self.calls))
        candidates = sorted(map(_parsed, names), key=lambda candidate: candidate.permutation)  # each is computed once
        for candidate in candidates:
            session.measure(candidate, progress, len(candidates))
        measured = {row.candidate: row for row in session.rows if not math.isnan(row.median_us)}
        return measured, session.best[0] if session.best else None


def predict(
    A: Any,
    op: str = "spmm",
    *,
    k: int | None = None,
    dtype: Any = None,
    layout: str = "row",
    calls: float | None = None,
    cache: str = "warm",
    candidates: str | Sequence[str] | None = None,
    gpu: str = "NVIDIA H200",
) -> Explanation:
    """Say what would be chosen on a GPU that need not be there.

    Parameters
    ----------
    A : sparse matrix, shape (m, n)
        As for `warploom.plan`.
    op, k, dtype, layout, cache, candidates
        As for `warploom.plan`.
    calls : float, optional
        Products that will be computed with one preparation; if not given, so many that it does not matter.
    gpu : str
        Product name of a GPU with a profile.

    Returns
    -------
    Explanation
        The chosen candidate, predicted times of all, what they cost to prepare, and what decided.

    Raises
    ------
    ParameterError
        There is no profile of that GPU, or a parameter is out of range.
    InvalidMatrixError, ShapeError, DtypeError
        If `A` is malformed or of an unsupported type.

    Examples
    --------
    >>> import warploom as wl
    >>> explanation = wl.predict(wl.examples.load("gr_30_30"), op="spmv", dtype="float32")
    >>> explanation.chosen.startswith("spmv/")
    True
    """
    from warploom.plan import problem_of

    source = _source(gpu, None)
    if source is None:
        known = ", ".join(sorted(profiles.names())) or "none"
        raise ParameterError(f"there is no profile of '{gpu}'; known: {known}", argument="gpu")
    problem = problem_of(A, op, k, dtype, layout, cache, "cpu")
    values = _features(problem, source.selector)
    patterns = checked_patterns(candidates, "candidates")
    choice, proxy = _choose(source.selector, problem, values, patterns, calls, vendor=True, device="cuda")
    return _explain(problem, choice, choice.candidate, {}, values, source, proxy, calls)


def _features(problem: Problem, selector: _core.Selector) -> _core.MatrixFeatures:
    """Compute the features that the models read where the matrix lives."""
    return _core.MatrixFeatures(
        **{
            name: _core.compute_features_device(name, problem.resident)
            if problem.resident is not None
            else getattr(features, name)(problem.matrix).values
            for name in selector.feature_sets(*_kind(selector, problem)[0])
        }
    )


def _kind(selector: _core.Selector, problem: Problem) -> tuple[tuple[str, str, str, str], str]:
    """Return the operation, value type, layout and cache of the model, and what it stands in for if for something."""
    layout = problem.layout if problem.op == "spmm" else ""
    dtype = problem.dtype_name
    if problem.op == "spmm" and dtype == "float64":
        return ("spmm", "float32", layout, problem.cache), "float64: predicted from float32"
    return (problem.op, dtype, layout, problem.cache), ""


def _choose(
    selector: _core.Selector,
    problem: Problem,
    values: _core.MatrixFeatures,
    patterns: str | Sequence[str] | None,
    calls: float | None,
    vendor: bool,
    device: str,
) -> tuple[_core.Choice, str]:
    (op, dtype, layout, cache), proxy = _kind(selector, problem)
    rows = problem.matrix.shape[0]
    of_rows = dict(zip(features.names("spmv"), values.spmv, strict=True))
    row_lengths = (int(of_rows["nnz_per_row_min"]), int(of_rows["nnz_per_row_max"]))

    def may_be_taken(name: str) -> bool:
        if not matches(name, patterns) or (_is_vendor(name) and not vendor):
            return False
        candidate = _parsed(name)
        if device not in candidate.kernel.devices:
            return False
        if patterns is None and rows > SEARCHED_ROWS and permutations.searches(candidate.permutation):
            return False
        return not is_redundant(candidate, problem, row_lengths) and not _reason_against(candidate, problem)

    choice = selector.choose(values, op, problem.k, dtype, layout, calls, cache, may_be_taken)
    try:
        choice.candidate  # noqa: B018 (fails if none may be taken)
    except ParameterError as error:
        if error.argument != "among":
            raise
        raise ParameterError(
            f"no candidate that the profile knows matches {patterns!r} and can run this problem; "
            "select='measure' considers all",
            argument="candidates",
        ) from None
    return choice, proxy


@functools.lru_cache(maxsize=1024)
def _parsed(name: str) -> Candidate:
    return parse(name)


def _is_vendor(name: str) -> bool:
    return "/cusparse" in name


def _reason_against(candidate: Candidate, problem: Problem) -> str:
    kernel, parameters = candidate.kernel, dict(candidate.parameters)
    if problem.dtype_name not in kernel.dtypes:
        return "value type"
    return _core.unsupported_reason(
        kernel.op, problem.matrix, kernel.format, kernel.name, problem.k, problem.layout, parameters, None
    )


def _prepared(problem: Problem, name: str) -> Plan:
    from warploom.plan import Plan

    candidate = _parsed(name)
    resident = problem.resident if candidate.kernel.from_device else None
    return Plan(
        problem.matrix, candidate, problem.k, problem.layout, problem.device, problem.allocate, resident=resident
    )


def _first_that_fits(problem: Problem, names: Iterable[str]) -> Plan:
    for name in itertools.islice(names, _TRIES):
        try:
            return _prepared(problem, name)
        except (OutOfMemoryError, MemoryError, ParameterError):
            continue
    return _prepared(problem, Candidate.make(default_kernel(problem.op, problem.layout)).name)


def _explain(
    problem: Problem,
    choice: _core.Choice,
    chosen: str,
    measured: Mapping[str, Row],
    values: _core.MatrixFeatures,
    source: Source,
    proxy: str,
    calls: float | None,
) -> Explanation:
    baseline = Candidate.make(default_kernel(problem.op, problem.layout)).name
    predicted = {p.candidate: p for p in choice.ranked}
    reference = predicted.get(baseline)
    rows = []
    for prediction in choice.ranked:
        row = measured.get(prediction.candidate) or Row(prediction.candidate, preparation_ms=prediction.preparation_ms)
        row.predicted_us = prediction.time_us
        row.break_even = _break_even(prediction, reference)
        rows.append(row)
    rows += [row for name, row in measured.items() if name not in predicted]
    kind, _ = _kind(source.selector, problem)
    decided = source.selector.deciding_inputs(values, choice, *kind[:1], problem.k, *kind[1:])
    footnotes = [
        f"{problem.cache} cache; "
        + ("preparation not counted" if calls is None else f"chosen for {calls:g} calls with one preparation"),
        f"expected to be {choice.expected_loss:.1%} above the fastest"
        + (": unsure, more than for most matrices" if choice.unsure and not choice.outside else ""),
        *([f"unsure, since outside what was measured: {choice.outside}"] if choice.outside else []),
        *(note for note in (source.note, proxy) if note),
        f"break-even: products after which preparing a candidate instead of {baseline} has paid off",
        *(["decided most by " + ", ".join(decided)] if decided else []),
    ]
    return Explanation.of_predictions(problem, rows, chosen, baseline, source.gpu, footnotes)


def _break_even(prediction: _core.Prediction, reference: _core.Prediction | None) -> float:
    if reference is None or prediction.candidate == reference.candidate:
        return float("nan")
    saved = reference.time_us - prediction.time_us
    extra = 1e3 * (prediction.preparation_ms - reference.preparation_ms)
    if saved <= 0:
        return float("inf")
    return float(max(0.0, np.ceil(extra / saved)))
