"""From coordinates to CSR, as every construction needs it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse

from warploom.corpus.constructions import _random

__all__ = ["from_coordinates", "from_rows", "with_random_values"]


def from_coordinates(
    shape: tuple[int, int], rows: npt.ArrayLike, cols: npt.ArrayLike, *, symmetric: bool = False, seed: int = 0
) -> scipy.sparse.csr_array:
    """Make a matrix with an entry at each coordinate, once, with random values; `symmetric` adds the transpose."""
    rows, cols = np.asarray(rows), np.asarray(cols)
    if symmetric:
        rows, cols = np.concatenate([rows, cols]), np.concatenate([cols, rows])
    pattern = scipy.sparse.csr_array((np.ones(len(rows), np.int8), (rows, cols)), shape=shape)
    pattern.sum_duplicates()
    return with_random_values(pattern, seed)


def from_rows(
    shape: tuple[int, int],
    indptr: npt.ArrayLike,
    indices: npt.ArrayLike,
    data: npt.ArrayLike | None = None,
    seed: int = 0,
) -> scipy.sparse.csr_array:
    """Make a matrix from CSR arrays with ascending columns in each row; without `data`, values are random."""
    indices = np.asarray(indices)
    values = _random.uniform(seed, 0.5, 1.5, len(indices), stream=1) if data is None else np.asarray(data, np.float64)
    wide = len(indices) > np.iinfo(np.int32).max
    return scipy.sparse.csr_array(
        (values, indices.astype(np.int32), np.asarray(indptr).astype(np.int64 if wide else np.int32)), shape=shape
    )


def with_random_values(pattern: scipy.sparse.csr_array, seed: int = 0) -> scipy.sparse.csr_array:
    """Give a matrix values uniform in [0.5, 1.5)."""
    pattern.sort_indices()
    return from_rows(pattern.shape, pattern.indptr, pattern.indices, seed=seed)
