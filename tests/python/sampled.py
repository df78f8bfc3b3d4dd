"""Helpers of the tests of sampled products: operands, and the check of a result."""

from __future__ import annotations

import numpy as np

from warploom import _bfloat16

__all__ = ["DTYPES", "assert_sampled", "operands"]

DTYPES = ("float16", "bfloat16", "float32", "float64")


def operands(shape, k, dtype, seed=0):
    """Draw X and Y for a matrix of a shape, in a type by its name."""
    rng = np.random.default_rng(seed)
    return [_bfloat16.cast(rng.standard_normal((rows, k)), _bfloat16.as_dtype(dtype)) for rows in shape]


def assert_sampled(A, X, Y, values):
    """Check values at the entries of A against float64 sums, within the rounding of sums and of a last rounding."""
    wide = np.dtype(np.float64)
    x, y = _bfloat16.cast(X, wide), _bfloat16.cast(Y, wide)
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    exact = np.einsum("ij,ij->i", x[rows], y[A.indices])
    scale = np.einsum("ij,ij->i", abs(x)[rows], abs(y)[A.indices])
    assert values.dtype == X.dtype
    assert values.shape == (A.nnz,)
    half = X.dtype.itemsize == 2
    eps = np.finfo(np.float32).eps if half else np.finfo(X.dtype).eps
    bound = eps * (X.shape[1] + 2) * scale
    if half:
        smallest = 2.0**-24 if X.dtype == np.float16 else 2.0**-133
        bound += _bfloat16.eps_of(X.dtype) * abs(exact) + smallest
    assert np.all(abs(_bfloat16.cast(values, wide) - exact) <= bound)
