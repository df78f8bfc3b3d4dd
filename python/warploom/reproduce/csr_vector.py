"""CSR-vector by threads per row, and the formulas that choose it by the mean row length."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warploom.training.threads_per_row import CANDIDATES, THREADS

__all__ = ["VECTOR", "by_mean", "by_square_root"]

VECTOR = dict(zip(map(str, THREADS), CANDIDATES, strict=True))
"""Candidates by threads per row."""


def by_mean(sizes: pd.DataFrame) -> NDArray[np.int64]:
    """Return the threads per row by the mean row length: formula (1), at least 2."""
    return _at_least(THREADS, sizes)


def by_square_root(sizes: pd.DataFrame) -> NDArray[np.int64]:
    """Return the threads per row by the root of the mean row length: formula (2), at least 2."""
    return _at_least([t * t for t in THREADS], sizes)


def _at_least(bounds: tuple[int, ...] | list[int], sizes: pd.DataFrame) -> NDArray[np.int64]:
    """Return the smallest numbers of threads whose bound is not below nnz / rows, without rounding; at most 32."""
    rows, nnz = sizes["rows"].to_numpy(np.int64), sizes["nnz"].to_numpy(np.int64)
    enough = np.array([bound * rows >= nnz for bound in bounds[:-1]] + [np.ones(len(rows), bool)])
    chosen: NDArray[np.int64] = np.array(THREADS, dtype=np.int64)[enough.argmax(axis=0)]
    return chosen
