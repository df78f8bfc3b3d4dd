"""Helpers of the tests of `Plan.update_values`: matrices, and new values for them."""

from __future__ import annotations

import functools

import numpy as np
from scipy.sparse import csr_array, diags_array, kronsum

from battery import battery, typed
from warploom import _bfloat16

__all__ = ["matrices", "new_values", "stencil", "with_values"]


def with_values(A, data):
    """Return the matrix with other values, its arrays as they are."""
    return typed(
        csr_array((_bfloat16.cast(data, np.dtype(np.float64)), A.indices, A.indptr), shape=A.shape), data.dtype
    )


def new_values(A, seed=1):
    """Return values of either sign, and zeros of either sign."""
    values = np.random.default_rng(seed).standard_normal(A.nnz)
    values[: A.nnz // 8 : 3] = 0.0
    values[1 : A.nnz // 8 : 3] = -0.0
    return _bfloat16.cast(values, A.data.dtype)


def _rows(m, n, lengths, dtype, seed=0):
    """Return rows of these lengths, their columns apart and in no order."""
    rng = np.random.default_rng(seed)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.concatenate([rng.choice(n, length, replace=False) for length in lengths]).astype(np.int32)
    return typed(csr_array((rng.uniform(-1, 1, indptr[-1]), indices, indptr), shape=(m, n)), dtype)


@functools.cache
def stencil(dtype, n=64):
    """Return the 5-point stencil on a grid of n x n: parts of it repeat in every format."""
    line = diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    matrix = csr_array(kronsum(line, line, format="csr"))
    return typed(matrix, dtype)


@functools.cache
def matrices(dtype):
    """Return small matrices by name: the battery, two with more nonzeros than 16 bits count, and a regular one."""
    found = battery(dtype)
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 60, 2500)
    lengths[7] = 3000
    found["many"] = _rows(2500, 3000, lengths, dtype)
    # Columns further apart than compressed codes reach, so that some formats store distances.
    found["far apart"] = _rows(9000, 2_000_000, np.full(9000, 8), dtype)
    found["stencil"] = stencil(dtype)
    return found
