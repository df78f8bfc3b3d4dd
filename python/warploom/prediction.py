"""Predicted times of candidates, from features alone.

What a model reads is made here from the features of both sets, the columns of B and the value type, so that training
and use cannot differ in it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["INPUTS", "model_inputs"]

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

_SMALL = 1e-3
"""Added to what may be 0 before its logarithm is taken."""


def model_inputs(features: Mapping[str, ArrayLike], k: ArrayLike = 1) -> NDArray[np.float64]:
    """Return what the models read: logarithms of sizes, and ratios.

    Parameters
    ----------
    features : mapping from str to array_like, shape (n,)
        The features of both sets, each with the name of its set before it: ``spmm_density``, ``spmv_nnz``.
    k : array_like, shape (n,)
        Columns of B; 1 for SpMV.

    Returns
    -------
    ndarray of float64, shape (n, len(INPUTS))
    """
    given = {name: np.asarray(values, dtype=np.float64) for name, values in features.items()}
    rows, cols, nnz = (given[f"spmv_{name}"] for name in ("num_rows", "num_cols", "nnz"))
    columns = np.asarray(k, dtype=np.float64)
    mean_row = given["spmv_nnz_per_row_mean"]
    lines = given["spmm_distinct_cache_lines_per_warp_mean"]
    requests = given["spmm_total_cache_lines_per_warp_mean"]
    values = {
        "log_rows": _log(rows),
        "log_cols": _log(cols),
        "log_nnz": _log(nnz),
        "log_density": np.log2(given["spmv_density"] + 1e-9),
        "log_row_min": _log(given["spmv_nnz_per_row_min"]),
        "log_row_mean": _log(mean_row),
        "log_row_max": _log(given["spmv_nnz_per_row_max"]),
        "log_row_std": _log(np.sqrt(given["spmv_nnz_per_row_var"])),
        "row_cov": np.log1p(given["spmv_nnz_per_row_cov"]),
        "log_imbalance": _ratio(given["spmv_nnz_per_row_max"], mean_row),
        "log_longest_share": _ratio(given["spmv_nnz_per_row_max"], nnz),
        "log_shape": _ratio(cols, rows),
        "log_block_fill": _ratio(mean_row, given["spmm_nnz_blocks_per_row_mean"]),
        "log_block_max": _log(given["spmm_nnz_blocks_per_row_max"]),
        "log_block_min": _log(given["spmm_nnz_blocks_per_row_min"]),
        "log_warp_load_mean": _log(given["spmm_warp_load_mean"]),
        "log_warp_imbalance": _ratio(given["spmm_warp_load_max"], given["spmm_warp_load_mean"]),
        "log_warp_idle": _ratio(given["spmm_warp_load_min"], given["spmm_warp_load_mean"]),
        "log_line_requests_max": _log(given["spmm_same_cache_lines_max"]),
        "log_line_requests_mean": _log(given["spmm_same_cache_lines_mean"]),
        "log_line_imbalance": _ratio(given["spmm_same_cache_lines_max"], given["spmm_same_cache_lines_mean"]),
        "log_lines": _log(lines),
        "log_lines_reuse": _ratio(requests, lines),
        "log_lines_imbalance": _ratio(given["spmm_distinct_cache_lines_per_warp_max"], lines),
        "log_requests_imbalance": _ratio(given["spmm_total_cache_lines_per_warp_max"], requests),
        "log_distance": _log(given["spmm_adjacent_vector_distance_mean"]),
        "log_distance_max": _log(given["spmm_adjacent_vector_distance_max"]),
        "log_dissimilarity": _ratio(given["spmm_adjacent_vector_distance_mean"], given["spmm_nnz_blocks_per_row_mean"]),
        "log_k": _log(columns) + 0 * rows,
        "log_work": _log(nnz * columns),
        "log_result": _log(rows * columns),
        "log_operand": _log(cols * columns),
    }
    return np.stack([values[name] for name in INPUTS], axis=-1)


def _log(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.log2(1 + values))


def _ratio(numerator: NDArray[np.float64], denominator: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.log2((numerator + _SMALL) / (denominator + _SMALL)))
