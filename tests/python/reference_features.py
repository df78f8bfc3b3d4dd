"""The features as the papers word them: slow, plain Python sets and lists."""

from __future__ import annotations

import math


def _rows(A):
    return [A.indices[A.indptr[i] : A.indptr[i + 1]].tolist() for i in range(A.shape[0])]


def _summary(name, values):
    if not values:
        return {f"{name}_{what}": 0.0 for what in ("min", "mean", "max")}
    return {
        f"{name}_min": float(min(values)),
        f"{name}_mean": sum(values) / len(values),
        f"{name}_max": float(max(values)),
    }


def _density(A):
    m, n = A.shape
    return len(A.indices) / (m * n) if m * n else 0.0


def spmm(A, warps, threads, elements_per_cache_line):
    m, n = A.shape
    rows = _rows(A)
    # The bit mask of a row, as the set of the positions of its ones: the lines of B's column that it needs.
    masks = [{column // elements_per_cache_line for column in row} for row in rows]
    num_lines = math.ceil(n / elements_per_cache_line)
    rows_of_warp = [range(warp, m, warps) for warp in range(warps)]
    steps = [sum(math.ceil(len(rows[i]) / threads) for i in of_warp) for of_warp in rows_of_warp]
    requests = [sum(line in mask for mask in masks) for line in range(num_lines)] if m else []
    distinct = [len(set().union(*(masks[i] for i in of_warp))) for of_warp in rows_of_warp]
    total = [sum(len(masks[i]) for i in of_warp) for of_warp in rows_of_warp]
    return {
        "num_rows": float(m),
        "num_cols": float(n),
        "density": _density(A),
        **_summary("nnz_per_row", [len(row) for row in rows]),
        **_summary("nnz_blocks_per_row", [len({column // warps for column in row}) for row in rows]),
        **_summary("warp_load", steps),
        **_summary("same_cache_lines", requests),
        **_summary("distinct_cache_lines_per_warp", distinct),
        **_summary("total_cache_lines_per_warp", total),
        **_summary("adjacent_vector_distance", [len(masks[i] ^ masks[i + 1]) for i in range(m - 1)]),
    }


def spmv(A):
    m, n = A.shape
    lengths = [len(row) for row in _rows(A)]
    mean = sum(lengths) / m if m else 0.0
    var = sum((length - mean) ** 2 for length in lengths) / m if m else 0.0
    longest = max(lengths, default=0)
    return {
        "num_rows": float(m),
        "num_cols": float(n),
        "nnz": float(sum(lengths)),
        "density": _density(A),
        "nnz_per_row_min": float(min(lengths, default=0)),
        "nnz_per_row_max": float(longest),
        "nnz_per_row_mean": mean,
        "nnz_per_row_var": var,
        "nnz_per_row_max_minus_mean": longest - mean,
        "sqrt_nnz_per_row_mean": math.sqrt(mean),
        "nnz_per_row_cov": math.sqrt(var) / mean if mean else 0.0,
    }
