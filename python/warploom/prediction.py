"""Predicted times of candidates, from features alone.

What a model reads is made here from the features of both sets and the columns of B, and what it says is turned into
times, so that training and use cannot differ in either. Needs no library that trains models.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warploom import features as feature_sets
from warploom.errors import ParameterError, ProfileError
from warploom.predictor import Model
from warploom.profiles import Profile

__all__ = [
    "INPUTS",
    "LOSS",
    "PREPARATION_INPUTS",
    "REFERENCE",
    "SIZES",
    "SPMV_INPUTS",
    "Choice",
    "Prediction",
    "Selector",
    "compress",
    "describe",
    "expand",
    "model_inputs",
    "model_name",
    "preparation_inputs",
    "roofline_us",
]

REFERENCE = "reference"
"""Output of a model: log of the least time over `roofline_us`."""
LOSS = "loss"
"""Output of a model: what is expected to be lost by its choice, as log of a ratio of times."""

_ITEMSIZES = {"float16": 2, "float32": 4, "float64": 8}

_SMALL = 1e-3
"""Added to what may be 0 before its logarithm is taken."""

_Formula = Callable[[Mapping[str, Any], Any, Any], Any]
"""Of features, the columns of B, and a module that has the functions: NumPy, or math for one matrix."""


def _log(feature: str) -> _Formula:
    return lambda given, k, module: module.log2(1 + given[feature])


def _log_by_k(feature: str) -> _Formula:
    return lambda given, k, module: module.log2(1 + given[feature] * k)


def _ratio(numerator: str, denominator: str) -> _Formula:
    return lambda given, k, module: module.log2((given[numerator] + _SMALL) / (given[denominator] + _SMALL))


def _alignment(size: Callable[[Mapping[str, Any], Any], Any]) -> _Formula:
    """Log of the largest power of two in a size, up to 1024: how rows and columns of B and C lie in memory."""

    def exponent(given: Mapping[str, Any], k: Any, module: Any) -> Any:
        value = size(given, k)
        whole = int(value) if module is math else np.asarray(value).astype(np.int64)
        return module.log2(module.gcd(whole, 1024))

    return exponent


_OF_ROW_LENGTHS: dict[str, _Formula] = {
    "log_rows": _log("spmv_num_rows"),
    "log_cols": _log("spmv_num_cols"),
    "log_nnz": _log("spmv_nnz"),
    "log_density": lambda given, k, module: module.log2(given["spmv_density"] + _SMALL**3),
    "log_row_min": _log("spmv_nnz_per_row_min"),
    "log_row_mean": _log("spmv_nnz_per_row_mean"),
    "log_row_max": _log("spmv_nnz_per_row_max"),
    "log_row_std": lambda given, k, module: module.log2(1 + module.sqrt(given["spmv_nnz_per_row_var"])),
    "row_cov": lambda given, k, module: module.log1p(given["spmv_nnz_per_row_cov"]),
    "log_imbalance": _ratio("spmv_nnz_per_row_max", "spmv_nnz_per_row_mean"),
    "log_longest_share": _ratio("spmv_nnz_per_row_max", "spmv_nnz"),
    "log_shape": _ratio("spmv_num_cols", "spmv_num_rows"),
}
_OF_PATTERN: dict[str, _Formula] = {
    "log_block_fill": _ratio("spmv_nnz_per_row_mean", "spmm_nnz_blocks_per_row_mean"),
    "log_block_max": _log("spmm_nnz_blocks_per_row_max"),
    "log_block_min": _log("spmm_nnz_blocks_per_row_min"),
    "log_warp_load_mean": _log("spmm_warp_load_mean"),
    "log_warp_imbalance": _ratio("spmm_warp_load_max", "spmm_warp_load_mean"),
    "log_warp_idle": _ratio("spmm_warp_load_min", "spmm_warp_load_mean"),
    "log_line_requests_max": _log("spmm_same_cache_lines_max"),
    "log_line_requests_mean": _log("spmm_same_cache_lines_mean"),
    "log_line_imbalance": _ratio("spmm_same_cache_lines_max", "spmm_same_cache_lines_mean"),
    "log_lines": _log("spmm_distinct_cache_lines_per_warp_mean"),
    "log_lines_reuse": _ratio("spmm_total_cache_lines_per_warp_mean", "spmm_distinct_cache_lines_per_warp_mean"),
    "log_lines_imbalance": _ratio("spmm_distinct_cache_lines_per_warp_max", "spmm_distinct_cache_lines_per_warp_mean"),
    "log_requests_imbalance": _ratio("spmm_total_cache_lines_per_warp_max", "spmm_total_cache_lines_per_warp_mean"),
    "log_distance": _log("spmm_adjacent_vector_distance_mean"),
    "log_distance_max": _log("spmm_adjacent_vector_distance_max"),
    "log_dissimilarity": _ratio("spmm_adjacent_vector_distance_mean", "spmm_nnz_blocks_per_row_mean"),
}
_OF_COLUMNS: dict[str, _Formula] = {
    "log_k": lambda given, k, module: module.log2(1 + k),
    "log_work": _log_by_k("spmv_nnz"),
    "log_result": _log_by_k("spmv_num_rows"),
    "log_operand": _log_by_k("spmv_num_cols"),
    "k_alignment": _alignment(lambda given, k: k),
    "rows_alignment": _alignment(lambda given, k: given["spmv_num_rows"]),
    "cols_alignment": _alignment(lambda given, k: given["spmv_num_cols"]),
}
_FORMULAS = _OF_ROW_LENGTHS | _OF_PATTERN | _OF_COLUMNS

INPUTS = tuple(_FORMULAS)
"""Names of what `model_inputs` can return."""

SPMV_INPUTS = tuple(_OF_ROW_LENGTHS)
"""Those that need the eleven features of SpMV only, which are the cheaper ones."""

PREPARATION_INPUTS = ("one", "rows", "cols", "nnz", "padded")
"""Names of what `preparation_inputs` returns."""

SOFTNESS = 0.1
"""Of `compress`: log ratios well below it are kept, those well above are compressed."""


def model_inputs(
    features: Mapping[str, ArrayLike], k: ArrayLike = 1, names: Sequence[str] = INPUTS
) -> NDArray[np.float64]:
    """Return what the models read: logarithms of sizes, and ratios.

    Parameters
    ----------
    features : mapping from str to array_like, shape (n,)
        Features with the name of their set before them: ``spmm_density``, ``spmv_nnz``. Those of SpMM are needed only
        for names that are not in `SPMV_INPUTS`.
    k : array_like, shape (n,)
        Columns of B; 1 for SpMV.
    names : sequence of str
        Which ones, of `INPUTS`.

    Returns
    -------
    ndarray of float64, shape (n, len(names))

    Raises
    ------
    ParameterError
        A feature is missing, or a name is not known.
    """
    given, module = _numbers(features)
    if unknown := [name for name in names if name not in _FORMULAS]:
        raise ParameterError(f"there is no input '{unknown[0]}'", argument="names")
    try:
        if module is np:
            k = np.broadcast_to(np.asarray(k, dtype=np.float64), given["spmv_nnz"].shape)
        return np.array([_FORMULAS[name](given, k, module) for name in names]).T
    except KeyError as error:
        raise ParameterError(f"the features lack {error}", argument="features") from None


def _numbers(features: Mapping[str, ArrayLike]) -> tuple[Mapping[str, Any], Any]:
    """Return features, all numbers or all arrays, and the module with functions of them.

    For one matrix `math` is much quicker than NumPy, and the same but for the last bit.
    """
    if isinstance(next(iter(features.values())), float):
        return features, math
    return {name: np.asarray(values, dtype=np.float64) for name, values in features.items()}, np


def preparation_inputs(features: Mapping[str, ArrayLike]) -> NDArray[np.float64]:
    """Return what the time of a preparation is a sum of.

    Parameters
    ----------
    features : mapping from str to array_like, shape (n,)
        As for `model_inputs`; those of SpMV are enough.

    Returns
    -------
    ndarray of float64, shape (n, len(PREPARATION_INPUTS))
        1; rows, columns and nonzeros in millions; and rows times the longest row, in millions, at most a thousand.
    """
    given, module = _numbers(features)
    rows, cols, nnz = (given[f"spmv_{name}"] / 1e6 for name in ("num_rows", "num_cols", "nnz"))
    padded = (np.minimum if module is np else min)(rows * given["spmv_nnz_per_row_max"], 1e3)
    return np.array([1 + 0 * rows, rows, cols, nnz, padded]).T


def roofline_us(features: Mapping[str, ArrayLike], k: ArrayLike, itemsize: int) -> NDArray[np.float64]:
    """Return a rough time of the product, which models correct by a factor.

    It grows as times do, so that what models have to learn does not: trees cannot extrapolate. The latency is that of
    a launch, the bandwidths are those of memory and cache of an H200.

    Parameters
    ----------
    features : mapping from str to array_like, shape (n,)
        As for `model_inputs`; those of SpMV are enough.
    k : array_like, shape (n,)
        Columns of B.
    itemsize : int
        Bytes of a value.

    Returns
    -------
    ndarray of float64, shape (n,)
        Microseconds.
    """
    given, _ = _numbers(features)
    rows, cols, nnz = given["spmv_num_rows"], given["spmv_num_cols"], given["spmv_nnz"]
    columns: Any = k if isinstance(k, int) else np.asarray(k)
    from_memory = nnz * (4.0 + itemsize) + 4 * rows + (rows + cols) * columns * itemsize
    from_cache = nnz * columns * itemsize
    return np.asarray(2.5 + from_memory / 4e6 + from_cache / 2e7)


def compress(log_ratio: ArrayLike) -> NDArray[np.float64]:
    """Compress logarithms of time / least time, so that what is close to the fastest counts most.

    Parameters
    ----------
    log_ratio : array_like
        0 or more; NaN stays.

    Returns
    -------
    ndarray of float64
        a log(1 + x / a) with a = `SOFTNESS`.
    """
    return np.asarray(SOFTNESS * np.log1p(np.asarray(log_ratio, dtype=np.float64) / SOFTNESS))


def expand(compressed: ArrayLike) -> NDArray[np.float64]:
    """Undo `compress`; what is below 0 becomes 0."""
    return np.asarray(SOFTNESS * np.expm1(np.maximum(np.asarray(compressed, dtype=np.float64), 0) / SOFTNESS))


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What is expected of one candidate."""

    candidate: str
    time_us: float
    """Of a product."""
    preparation_ms: float
    total_us: float
    """Preparation and products together, per product; the time alone for an unknown number of calls."""


@dataclasses.dataclass(frozen=True, eq=False)
class Choice:
    """Candidates in the order in which they are worth taking.

    Whether a candidate may be taken is only asked until the answer is known: it can take longer than the choice.

    Parameters
    ----------
    candidates : sequence of str
        All that the model knows.
    scores : ndarray of float64, shape (candidates,)
        Compressed logarithms of the time over the least time, as predicted.
    least_us : float
        The least time, in microseconds.
    prepare_ms : callable
        Predicts the milliseconds of preparation, shape (candidates,).
    calls : float, optional
        Products with one preparation; if not given, so many that it does not matter.
    among : callable
        Says of a candidate's name whether it may be taken.
    expected_loss : float
        What the time of the first is expected to be above the least one, as a share of it.
    unsure : bool
        Whether that is more than may go unmeasured: for at most three in ten matrices of the training data.
    margin : float
        Scores within it of the least one belong to the short list.
    outside : str
        What of the problem is far larger or smaller than in the training data, or empty: models know nothing there.
    """

    candidates: Sequence[str]
    scores: NDArray[np.float64]
    least_us: float
    prepare_ms: Callable[[], NDArray[np.float64]]
    calls: float | None
    among: Callable[[str], bool]
    expected_loss: float
    unsure: bool
    margin: float
    outside: str = ""

    @property
    def candidate(self) -> str:
        """The first one.

        Raises
        ------
        ParameterError
            None may be taken.
        """
        for name in self.names():
            return name
        raise ParameterError("none of the candidates that the profile knows may be taken", argument="among")

    @functools.cached_property
    def ranked(self) -> tuple[Prediction, ...]:
        """All that may be taken, best first."""
        return tuple(self._prediction(i) for i in self._order if self.among(self.candidates[i]))

    @functools.cached_property
    def shortlist(self) -> tuple[str, ...]:
        """Candidates that may be as fast as the fastest: for 19 in 20 unsure held-out matrices one of these is."""
        found: list[int] = []
        for i in self.scores.argsort(kind="stable").tolist():
            if found and self.scores[i] > self.scores[found[0]] + self.margin:
                break
            if self.among(self.candidates[i]):
                found.append(i)
        return tuple(self.candidates[i] for i in found)

    def names(self) -> Iterator[str]:
        """Yield those that may be taken, best first."""
        return (self.candidates[i] for i in self._order if self.among(self.candidates[i]))

    def prediction(self) -> Prediction:
        """Return what is expected of the first one."""
        return self._prediction(self.candidates.index(self.candidate))

    def _prediction(self, i: int) -> Prediction:
        time_us, preparation_ms, total_us = (float(values[i]) for values in self._costs)
        return Prediction(self.candidates[i], time_us, preparation_ms, total_us)

    @functools.cached_property
    def _order(self) -> list[int]:
        """Ties are broken by the scores, which can be below 0 where times cannot be below the least one."""
        order = self.scores.argsort(kind="stable")
        if self.calls is not None:
            _, _, totals = self._costs
            order = order[totals[order].argsort(kind="stable")]
        return list(order.tolist())

    @functools.cached_property
    def _costs(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Microseconds of a product, milliseconds of preparation, and microseconds of both per product."""
        times = self.least_us * np.exp(expand(self.scores))
        preparation = self.prepare_ms()
        return times, preparation, times if self.calls is None else times + 1e3 / self.calls * preparation


SIZES: Mapping[str, Callable[[Mapping[str, Any], Any], Any]] = {
    "rows": lambda features, k: features["spmv_num_rows"],
    "columns": lambda features, k: features["spmv_num_cols"],
    "nonzeros": lambda features, k: features["spmv_nnz"],
    "k": lambda features, k: k,
}
"""Sizes of a problem, from features and the columns of B."""


@dataclasses.dataclass(frozen=True)
class _Known:
    """What is known of one operation, value type, layout and state of the cache."""

    model: Model
    candidates: tuple[str, ...]
    preparation: Model
    order: NDArray[np.intp]
    """Which outputs of `preparation` belong to the candidates."""
    margin: float
    unsure_loss: float
    ranges: tuple[tuple[str, float, float], ...]
    """Of `SIZES` in the training data."""

    @classmethod
    def of(cls, model: Model, preparation: Model, facts: Mapping[str, Any]) -> _Known:
        candidates = model.outputs[2:]
        order = np.array([preparation.outputs.index(name) for name in candidates])
        ranges = tuple((str(name), float(least), float(most)) for name, (least, most) in facts.get("sizes", {}).items())
        return cls(model, candidates, preparation, order, float(facts["margin"]), float(facts["unsure_loss"]), ranges)

    def outside(self, features: Mapping[str, float], k: int) -> str:
        """Name the sizes that are more than twice as large, or less than half as large, as any that was measured."""
        sizes = {name: size(features, k) for name, size in SIZES.items()}
        return ", ".join(
            f"{name} = {sizes[name]:,.0f} (measured: {least:,.0f} to {most:,.0f})"
            for name, least, most in self.ranges
            if name in sizes and not least / 2 <= sizes[name] <= 2 * most
        )

    def prepare_ms(self, features: Mapping[str, float]) -> NDArray[np.float64]:
        return np.asarray(self.preparation.predict(preparation_inputs(features)[np.newaxis])[0, self.order])


class Selector:
    """Chooses candidates by the models of a profile.

    Parameters
    ----------
    models : mapping from str to Model
        Named by `model_name`, and ``preparation-...`` without the state of the cache.
    facts : mapping from str to mapping
        For each name of a model that chooses: ``margin`` (of compressed logarithms, for the short list) and
        ``unsure_loss`` (logarithm); and ``sizes``, the least and the greatest of each of `SIZES` in the training data.
    """

    def __init__(self, models: Mapping[str, Model], facts: Mapping[str, Mapping[str, Any]]) -> None:
        self._known = {
            name: _Known.of(models[name], models[_preparation_name(name)], values) for name, values in facts.items()
        }

    @classmethod
    def from_profile(cls, profile: Profile) -> Selector:
        """Take the models of a profile.

        Raises
        ------
        ProfileError
            It has none that choose, or lacks what belongs to them.
        """
        facts = profile.metrics.get("selectors")
        if not isinstance(facts, Mapping) or not facts:
            raise ProfileError("the profile has no selectors", argument="metrics")
        for name in facts:
            for needed in (name, _preparation_name(name)):
                if needed not in profile.models:
                    raise ProfileError(f"the profile has no model '{needed}'", argument="models")
            outputs = profile.models[name].outputs
            if outputs[:2] != (REFERENCE, LOSS) or len(outputs) < 3:
                raise ProfileError(f"'{name}' is no model that chooses", argument=name)
            if not set(outputs[2:]) <= set(profile.models[_preparation_name(name)].outputs):
                raise ProfileError(f"preparation of a candidate of '{name}' is not known", argument=name)
        try:
            return cls(profile.models, facts)
        except (KeyError, TypeError, ValueError) as error:
            raise ProfileError(f"facts about a selector are damaged: {error}", argument="metrics") from None

    def names(self) -> list[str]:
        """Return the names of the models that choose, as `model_name` makes them."""
        return sorted(self._known)

    def feature_sets(self, op: str, dtype: str, layout: str = "", cache: str = "warm") -> tuple[str, ...]:
        """Return the sets of features that `choose` needs; SpMM's takes longer to compute."""
        inputs = self._find(op, dtype, layout, cache).model.inputs
        return ("spmv",) if set(inputs) <= set(SPMV_INPUTS) else ("spmm", "spmv")

    def choose(
        self,
        features: Mapping[str, float],
        op: str,
        k: int = 1,
        dtype: str = "float32",
        layout: str = "",
        calls: float | None = None,
        cache: str = "warm",
        among: Callable[[str], bool] | None = None,
    ) -> Choice:
        """Rank the candidates that the models know.

        Parameters
        ----------
        features : mapping from str to float
            From `describe`, of the sets in `feature_sets`.
        op, dtype, layout, cache : str
            As in the name of a setting; the layout is empty for SpMV.
        k : int
            Columns of B; 1 for SpMV.
        calls : float, optional
            Products that will be computed with one preparation; if not given, so many that it does not matter.
        among : callable, optional
            Says of a candidate's name whether it may be taken. What cannot run on a matrix has to be left out so.

        Returns
        -------
        Choice

        Raises
        ------
        ParameterError
            There is no model for this, `calls` is not positive, or features are missing.
        """
        if calls is not None and not calls > 0:
            raise ParameterError(f"calls must be positive, got {calls}", argument="calls")
        known = self._find(op, dtype, layout, cache)
        scores = known.model.predict(model_inputs(features, k, known.model.inputs)[np.newaxis])[0]
        reference, loss = scores[:2].tolist()
        outside = known.outside(features, k)
        return Choice(
            candidates=known.candidates,
            scores=scores[2:],
            least_us=math.exp(reference) * float(roofline_us(features, k, _ITEMSIZES[dtype])),
            prepare_ms=functools.partial(known.prepare_ms, features),
            calls=calls,
            among=functools.cache(among or _any),
            expected_loss=math.expm1(max(loss, 0.0)),
            unsure=loss > known.unsure_loss or bool(outside),
            margin=known.margin,
            outside=outside,
        )

    def deciding_inputs(
        self,
        features: Mapping[str, float],
        choice: Choice,
        op: str,
        k: int = 1,
        dtype: str = "float32",
        layout: str = "",
        cache: str = "warm",
        count: int = 5,
    ) -> list[str]:
        """Return the inputs that a choice depends on most.

        Those whose change by one, which for logarithms is a factor of two, changes most what the first candidate gains
        over the fastest of another kernel.

        Parameters
        ----------
        features, op, k, dtype, layout, cache
            As they were given to `choose`.
        choice : Choice
            What `choose` returned.
        count : int
            How many at most.

        Returns
        -------
        list of str
            Of `INPUTS`, the most important first; empty if there is but one kernel.
        """
        model = self._find(op, dtype, layout, cache).model
        kernel = choice.candidate.partition("[")[0]
        other = next((name for name in choice.names() if name.partition("[")[0] != kernel), None)
        if other is None:
            return []
        here = model_inputs(features, k, model.inputs)
        steps = np.eye(len(here))
        scores = model.predict(np.vstack([here, here + steps, here - steps]))
        gains = scores[:, model.outputs.index(other)] - scores[:, model.outputs.index(choice.candidate)]
        up, down = np.abs(gains[1:] - gains[0]).reshape(2, -1)
        change = np.maximum(up, down)
        return [model.inputs[i] for i in np.argsort(-change, kind="stable")[:count] if change[i] > 0]

    def _find(self, op: str, dtype: str, layout: str, cache: str) -> _Known:
        name = model_name(op, dtype, layout, cache)
        if name not in self._known:
            raise ParameterError(f"the profile has no '{name}', only {', '.join(self.names())}", argument="op")
        return self._known[name]


def model_name(op: str, dtype: str, layout: str, cache: str) -> str:
    """Return the name of a model that chooses, such as ``spmm-float32-row-warm`` or ``spmv-float64-cold``."""
    return "-".join(part for part in (op, dtype, layout, cache) if part)


def _any(name: str) -> bool:
    return True


def _preparation_name(name: str) -> str:
    return f"preparation-{name.rpartition('-')[0]}"


def describe(A: Any, sets: Iterable[str] = ("spmm", "spmv")) -> dict[str, float]:
    """Compute features of a matrix, with the name of their set before them.

    Parameters
    ----------
    A : sparse matrix
        Anything `warploom` takes as a matrix.
    sets : iterable of str
        Sets of features, see `Selector.feature_sets`.
    """
    vectors = {name: getattr(feature_sets, name)(A) for name in sets}
    return {f"{of}_{name}": value for of, vector in vectors.items() for name, value in vector.as_dict().items()}
