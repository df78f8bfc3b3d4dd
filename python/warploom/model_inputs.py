"""What the models that choose read, and how what they say becomes times.

Computed in C++, for training and for use alike, so that the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warploom import _core

__all__ = [
    "INPUTS",
    "LOCALITY_INPUTS",
    "LOSS",
    "PREPARATION_INPUTS",
    "REFERENCE",
    "SIZES",
    "SPMV_INPUTS",
    "VECTOR_INPUTS",
    "compress",
    "expand",
    "model_inputs",
    "model_name",
    "preparation_inputs",
    "roofline_us",
]

REFERENCE: str = _core.REFERENCE_OUTPUT
"""Output of a model: log of the minimum time over `roofline_us`."""

LOSS: str = _core.LOSS_OUTPUT
"""Output of a model: the expected loss of its choice, as log of a ratio of times."""

VECTOR_INPUTS: tuple[str, ...] = _core.column_vector_input_names()
"""Names of what `model_inputs` can return of column vectors: for SpMM in half precision."""

LOCALITY_INPUTS: tuple[str, ...] = _core.locality_input_names()
"""Names of what `model_inputs` can return of locality: -1 where it was not measured, below 10^6 nonzeros."""

INPUTS: tuple[str, ...] = tuple(
    name for name in _core.model_input_names() if name not in VECTOR_INPUTS + LOCALITY_INPUTS
)
"""Names of what else `model_inputs` can return, for all operations and value types."""

SPMV_INPUTS: tuple[str, ...] = _core.spmv_input_names()
"""Those that need the eleven features of SpMV only, which are the cheaper ones."""

PREPARATION_INPUTS: tuple[str, ...] = _core.preparation_input_names()
"""Names of what `preparation_inputs` returns."""


def model_inputs(
    features: Mapping[str, ArrayLike], k: ArrayLike = 1, names: Sequence[str] = INPUTS
) -> NDArray[np.float64]:
    """Return the inputs of the models: logarithms of sizes, and ratios.

    Parameters
    ----------
    features : mapping from str to array_like, shape (n,)
        Features with the name of their set before them: ``spmm_density``, ``spmv_nnz``. Those of SpMM are needed only
        for names that are not in `SPMV_INPUTS`, those of column vectors for `VECTOR_INPUTS`, those of locality for
        `LOCALITY_INPUTS`. Or numbers, of one matrix.
    k : array_like, shape (n,)
        Columns of B; 1 for SpMV.
    names : sequence of str
        Which ones, of `INPUTS`, `VECTOR_INPUTS` and `LOCALITY_INPUTS`.

    Returns
    -------
    ndarray of float64, shape (n, len(names))
        Of one matrix, shape (len(names),).

    Raises
    ------
    ParameterError
        A feature is missing, or a name is not known.
    """
    given, shape = _columns(features)
    columns = np.broadcast_to(_numbers(k), shape).reshape(-1)
    return _core.model_inputs(given, columns, list(names)).reshape(*shape, len(names))


def preparation_inputs(features: Mapping[str, ArrayLike]) -> NDArray[np.float64]:
    """Return the terms of which the preparation time is a linear combination.

    Parameters
    ----------
    features : mapping from str to array_like, shape (n,)
        As for `model_inputs`; those of SpMV are enough.

    Returns
    -------
    ndarray of float64, shape (n, len(PREPARATION_INPUTS))
        1; rows, columns and nonzeros in millions; and rows times the longest row, in millions, at most a thousand.

    Raises
    ------
    ParameterError
        A feature is missing.
    """
    given, shape = _columns(features)
    return _core.preparation_inputs(given).reshape(*shape, len(PREPARATION_INPUTS))


def roofline_us(features: Mapping[str, ArrayLike], k: ArrayLike, itemsize: int) -> NDArray[np.float64]:
    """Return a rough time of the product, which models correct by a factor.

    It grows as times do, so that the factor does not: trees cannot extrapolate. The latency is that of
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
    rows, cols, nnz = (_numbers(features[f"spmv_{name}"]) for name in ("num_rows", "num_cols", "nnz"))
    return np.asarray(_core.roofline_us(rows, cols, nnz, _numbers(k), _numbers(itemsize)))


def compress(log_ratio: ArrayLike) -> NDArray[np.float64]:
    """Compress logarithms of time / minimum time, so that what is close to the fastest counts most.

    Parameters
    ----------
    log_ratio : array_like
        0 or more; NaN stays NaN.

    Returns
    -------
    ndarray of float64
        a log(1 + x / a) with a = 0.1.
    """
    return np.asarray(_core.compress(_numbers(log_ratio)))


def expand(compressed: ArrayLike) -> NDArray[np.float64]:
    """Undo `compress`; what is below 0 becomes 0."""
    return np.asarray(_core.expand(_numbers(compressed)))


def model_name(op: str, dtype: str, layout: str, cache: str) -> str:
    """Return the name of a model that chooses, such as ``spmm-float32-row-warm`` or ``spmv-float64-cold``."""
    return _core.setting_name(op, dtype, layout, cache)


def _size(feature: str | None) -> Callable[[Mapping[str, Any], Any], Any]:
    return lambda features, k: k if feature is None else features[feature]


SIZES: Mapping[str, Callable[[Mapping[str, Any], Any], Any]] = {
    name: _size(feature) for name, feature in _core.problem_sizes().items()
}
"""Sizes of a problem, from features and the columns of B."""


def _numbers(values: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64)


def _columns(features: Mapping[str, ArrayLike]) -> tuple[dict[str, NDArray[np.float64]], tuple[int, ...]]:
    """Return features as arrays of one dimension, and the shape that they had."""
    given = {name: _numbers(values) for name, values in features.items()}
    shape = next(iter(given.values())).shape if given else (0,)
    return {name: values.reshape(-1) for name, values in given.items()}, shape
