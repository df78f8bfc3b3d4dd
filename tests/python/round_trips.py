"""What the tests of single formats share: comparing matrices, and products on the CPU."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warploom import _core
from warploom._matrix import as_csr

__all__ = ["DTYPES", "assert_same_matrix", "assert_spmv", "spmv"]

DTYPES = (np.float16, np.float32, np.float64)


class Product(NamedTuple):
    x: np.ndarray
    y: np.ndarray


def assert_same_matrix(found, expected):
    """Check that every array is the same; NaN equals NaN."""
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.indptr, expected.indptr)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.data, expected.data)


def spmv(A, kernel, x=None, **parameters):
    """Multiply on the CPU; y is full of NaN before."""
    kernel_format, name = kernel.split("/")
    plan = _core.prepare_product("spmv", as_csr(A), kernel_format, name, 1, "row", parameters, None, -1)
    if x is None:
        x = np.random.default_rng(0).standard_normal(A.shape[1])
    x = np.asarray(x, dtype=A.dtype)
    y = np.full(A.shape[0], np.nan, dtype=A.dtype)
    plan.run_host(x.reshape(-1, 1), y.reshape(-1, 1))
    return Product(x, y)


def assert_spmv(A, product):
    """Check y row by row against float64 sums."""
    x, y = product
    assert y.dtype == A.dtype
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    with np.errstate(invalid="ignore"):
        terms = A.data.astype(np.float64) * x.astype(np.float64)[A.indices]
        exact, scale = np.zeros(A.shape[0]), np.zeros(A.shape[0])
        np.add.at(exact, rows, terms)
        np.add.at(scale, rows, abs(terms))
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(y[~finite], exact[~finite])
    sum_eps = np.finfo(np.promote_types(A.dtype, np.float32)).eps
    bound = sum_eps * (np.diff(A.indptr) + 2) * scale + np.finfo(A.dtype).eps * abs(exact)
    assert np.all(abs(y[finite] - exact[finite]) <= bound[finite])
