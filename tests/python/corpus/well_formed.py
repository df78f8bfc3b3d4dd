"""What every construction promises of its matrices."""

from __future__ import annotations

import hashlib

import numpy as np

from warploom.corpus.constructions import construct


def make(name, **parameters):
    """A construction's matrix, after checks of what all of them promise."""
    matrix = construct(name, **parameters)
    again = construct(name, **parameters)
    assert matrix.indptr.dtype == matrix.indices.dtype == np.int32
    assert matrix.data.dtype == np.float64
    assert np.isfinite(matrix.data).all()
    assert matrix.data.all()
    assert matrix.indptr[0] == 0
    assert matrix.indptr[-1] == len(matrix.indices) == len(matrix.data)
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    assert ((matrix.indices >= 0) & (matrix.indices < matrix.shape[1])).all()
    assert (np.diff(row * np.int64(matrix.shape[1]) + matrix.indices) > 0).all()
    for array in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(matrix, array), getattr(again, array))
    return matrix


def pattern(matrix):
    """A dense array of booleans."""
    dense = np.zeros(matrix.shape, bool)
    dense[np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), matrix.indices] = True
    return dense


def is_symmetric(matrix):
    """Whether an entry has its mirror image, and none is on the diagonal."""
    dense = pattern(matrix)
    return bool((dense == dense.T).all() and not dense.diagonal().any())


def degrees(matrix):
    """Row lengths."""
    return np.diff(matrix.indptr)


def digest(matrix):
    """Eight bytes of the SHA-256 of the pattern, the same on every machine."""
    arrays = (matrix.indptr, matrix.indices)
    return hashlib.sha256(b"".join(a.astype("<i4").tobytes() for a in arrays)).hexdigest()[:16]
