"""Predicted times of candidates, from features alone.

What a model reads is made here from the features of both sets and the columns of B, and what it says is turned into
times, so that training and use cannot differ in either. Needs no library that trains models.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
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

INPUTS = (
    "log_rows",
    "log_cols",
    "log_nnz",
    "log_density",
    "log_row_min",
    "log_row_mean",
    "log_row_max",
    "log_row_std",
    "row_cov",
    "log_imbalance",
    "log_longest_share",
    "log_shape",
    "log_block_fill",
    "log_block_max",
    "log_block_min",
    "log_warp_load_mean",
    "log_warp_imbalance",
    "log_warp_idle",
    "log_line_requests_max",
    "log_line_requests_mean",
    "log_line_imbalance",
    "log_lines",
    "log_lines_reuse",
    "log_lines_imbalance",
    "log_requests_imbalance",
    "log_distance",
    "log_distance_max",
    "log_dissimilarity",
    "log_k",
    "log_work",
    "log_result",
    "log_operand",
)
"""Names of what `model_inputs` returns."""

SPMV_INPUTS = INPUTS[:12]
"""Those that need the eleven features of SpMV only, which are the cheaper ones."""

PREPARATION_INPUTS = ("one", "rows", "cols", "nnz", "padded")
"""Names of what `preparation_inputs` returns."""

SOFTNESS = 0.1
"""Of `compress`: log ratios well below it are kept, those well above are compressed."""

_SMALL = 1e-3
"""Added to what may be 0 before its logarithm is taken."""


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
    given: Mapping[str, Any] = features
    module: Any = math  # for one matrix much quicker than NumPy, and the same but for the last bit
    if not all(isinstance(value, float) for value in features.values()):
        given = {name: np.asarray(values, dtype=np.float64) for name, values in features.items()}
        module, k = np, np.asarray(k, dtype=np.float64)
    try:
        values = _of_row_lengths(given, module)
        if not values.keys() >= set(names):
            values |= _of_pattern(given, module) | _of_columns(given, k, module)
    except KeyError as error:
        raise ParameterError(f"the features lack {error}", argument="features") from None
    if unknown := [name for name in names if name not in values]:
        raise ParameterError(f"there is no input '{unknown[0]}'", argument="names")
    return np.array([values[name] for name in names]).T


def _of_row_lengths(given: Mapping[str, Any], module: Any) -> dict[str, Any]:
    log, ratio = _functions(module)
    rows, cols, nnz = (given[f"spmv_{name}"] for name in ("num_rows", "num_cols", "nnz"))
    least, mean, most = (given[f"spmv_nnz_per_row_{name}"] for name in ("min", "mean", "max"))
    return {
        "log_rows": log(rows),
        "log_cols": log(cols),
        "log_nnz": log(nnz),
        "log_density": module.log2(given["spmv_density"] + _SMALL**3),
        "log_row_min": log(least),
        "log_row_mean": log(mean),
        "log_row_max": log(most),
        "log_row_std": log(module.sqrt(given["spmv_nnz_per_row_var"])),
        "row_cov": module.log1p(given["spmv_nnz_per_row_cov"]),
        "log_imbalance": ratio(most, mean),
        "log_longest_share": ratio(most, nnz),
        "log_shape": ratio(cols, rows),
    }


def _of_pattern(given: Mapping[str, Any], module: Any) -> dict[str, Any]:
    log, ratio = _functions(module)
    blocks, load, shared, distinct, total, distance = (
        {statistic: given[f"spmm_{name}_{statistic}"] for statistic in ("min", "mean", "max")}
        for name in (
            "nnz_blocks_per_row",
            "warp_load",
            "same_cache_lines",
            "distinct_cache_lines_per_warp",
            "total_cache_lines_per_warp",
            "adjacent_vector_distance",
        )
    )
    return {
        "log_block_fill": ratio(given["spmv_nnz_per_row_mean"], blocks["mean"]),
        "log_block_max": log(blocks["max"]),
        "log_block_min": log(blocks["min"]),
        "log_warp_load_mean": log(load["mean"]),
        "log_warp_imbalance": ratio(load["max"], load["mean"]),
        "log_warp_idle": ratio(load["min"], load["mean"]),
        "log_line_requests_max": log(shared["max"]),
        "log_line_requests_mean": log(shared["mean"]),
        "log_line_imbalance": ratio(shared["max"], shared["mean"]),
        "log_lines": log(distinct["mean"]),
        "log_lines_reuse": ratio(total["mean"], distinct["mean"]),
        "log_lines_imbalance": ratio(distinct["max"], distinct["mean"]),
        "log_requests_imbalance": ratio(total["max"], total["mean"]),
        "log_distance": log(distance["mean"]),
        "log_distance_max": log(distance["max"]),
        "log_dissimilarity": ratio(distance["mean"], blocks["mean"]),
    }


def _of_columns(given: Mapping[str, Any], k: Any, module: Any) -> dict[str, Any]:
    log, _ = _functions(module)
    rows, cols, nnz = (given[f"spmv_{name}"] for name in ("num_rows", "num_cols", "nnz"))
    return {
        "log_k": log(k + 0 * rows),
        "log_work": log(nnz * k),
        "log_result": log(rows * k),
        "log_operand": log(cols * k),
    }


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
    names = ("num_rows", "num_cols", "nnz", "nnz_per_row_max")
    rows, cols, nnz, longest = (np.asarray(features[f"spmv_{name}"], dtype=np.float64) / 1e6 for name in names)
    padded = np.minimum(rows * longest * 1e6, 1e3)
    return np.array([np.ones_like(rows), rows, cols, nnz, padded]).T


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
    rows, cols, nnz = (np.asarray(features[f"spmv_{name}"]) for name in ("num_rows", "num_cols", "nnz"))
    columns = np.asarray(k)
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


@dataclasses.dataclass(frozen=True)
class Choice:
    """Candidates in the order in which they are worth taking.

    Parameters
    ----------
    ranked : tuple of Prediction
        Best first.
    expected_loss : float
        What the time of the first is expected to be above the least one, as a share of it.
    unsure : bool
        Whether that is more than for nine in ten matrices of the training data.
    shortlist : tuple of str
        Candidates that may be as fast as the fastest: for 19 in 20 held-out matrices one of these is.
    """

    ranked: tuple[Prediction, ...]
    expected_loss: float
    unsure: bool
    shortlist: tuple[str, ...]

    @property
    def candidate(self) -> str:
        """The first one."""
        return self.ranked[0].candidate


class Selector:
    """Chooses candidates by the models of a profile.

    Parameters
    ----------
    models : mapping from str to Model
        Named by `model_name`, and ``preparation-...`` without the state of the cache.
    facts : mapping from str to mapping
        For each name of a model that chooses: ``margin`` (of compressed logarithms, for the short list) and
        ``unsure_loss`` (logarithm).
    """

    def __init__(self, models: Mapping[str, Model], facts: Mapping[str, Mapping[str, float]]) -> None:
        self._models = dict(models)
        self._facts = {name: (float(values["margin"]), float(values["unsure_loss"])) for name, values in facts.items()}

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
        return sorted(self._facts)

    def feature_sets(self, op: str, dtype: str, layout: str = "", cache: str = "warm") -> tuple[str, ...]:
        """Return the sets of features that `choose` needs; SpMM's takes longer to compute."""
        inputs = self._model(op, dtype, layout, cache)[1].inputs
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
            There is no model for this, `calls` is not positive, features are missing, or no candidate is left.
        """
        if calls is not None and not calls > 0:
            raise ParameterError(f"calls must be positive, got {calls}", argument="calls")
        name, model = self._model(op, dtype, layout, cache)
        margin, unsure_loss = self._facts[name]
        scores = model.predict(model_inputs(features, k, model.inputs)[np.newaxis])[0]
        reference = np.exp(scores[0]) * roofline_us(features, k, np.dtype(dtype).itemsize)
        times = reference * np.exp(expand(scores[2:]))
        preparation_model = self._models[_preparation_name(name)]
        milliseconds = preparation_model.predict(preparation_inputs(features)[np.newaxis])[0]
        known = dict(zip(preparation_model.outputs, milliseconds.tolist(), strict=True))
        allowed = [
            (s, t, c) for s, t, c in zip(scores[2:], times, model.outputs[2:], strict=True) if not among or among(c)
        ]
        if not allowed:
            raise ParameterError("none of the candidates that the profile knows may be taken", argument="among")
        per_call = 0.0 if calls is None else 1e3 / calls
        ranked = [
            (t + per_call * known[c], s, Prediction(c, t, known[c], t + per_call * known[c])) for s, t, c in allowed
        ]
        ranked.sort(key=lambda entry: entry[:2])
        least = min(s for s, _, _ in allowed)
        return Choice(
            tuple(prediction for _, _, prediction in ranked),
            float(np.expm1(max(scores[1], 0.0))),
            bool(scores[1] > unsure_loss),
            tuple(c for s, _, c in sorted(allowed, key=lambda entry: entry[0]) if s <= least + margin),
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
        _, model = self._model(op, dtype, layout, cache)
        kernel = choice.candidate.partition("[")[0]
        other = next((p.candidate for p in choice.ranked if p.candidate.partition("[")[0] != kernel), None)
        if other is None:
            return []
        here = model_inputs(features, k, model.inputs)
        steps = np.eye(len(here))
        scores = model.predict(np.vstack([here, here + steps, here - steps]))
        gains = scores[:, model.outputs.index(other)] - scores[:, model.outputs.index(choice.candidate)]
        up, down = np.abs(gains[1:] - gains[0]).reshape(2, -1)
        change = np.maximum(up, down)
        return [model.inputs[i] for i in np.argsort(-change, kind="stable")[:count] if change[i] > 0]

    def _model(self, op: str, dtype: str, layout: str, cache: str) -> tuple[str, Model]:
        name = model_name(op, dtype, layout, cache)
        if name not in self._facts:
            raise ParameterError(f"the profile has no '{name}', only {', '.join(self.names())}", argument="op")
        return name, self._models[name]


def model_name(op: str, dtype: str, layout: str, cache: str) -> str:
    """Return the name of a model that chooses, such as ``spmm-float32-row-warm`` or ``spmv-float64-cold``."""
    return "-".join(part for part in (op, dtype, layout, cache) if part)


def _preparation_name(name: str) -> str:
    return f"preparation-{name.rpartition('-')[0]}"


def _functions(module: Any) -> tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]:
    """Return log2(1 + x), and log2 of a ratio of numbers that may be 0."""
    log2 = module.log2

    def log(value: Any) -> Any:
        return log2(1 + value)

    def ratio(numerator: Any, denominator: Any) -> Any:
        return log2((numerator + _SMALL) / (denominator + _SMALL))

    return log, ratio


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
