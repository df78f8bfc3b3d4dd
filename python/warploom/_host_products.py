"""Products of other libraries in host memory, which candidates on the CPU are compared with."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse import _sparsetools

from warploom import _core

__all__ = ["host_products"]

HostProduct = Callable[[Any, Any], None]
"""Overwrites its second argument with A times the first; both are two-dimensional arrays in the plan's layout."""


def host_products(problem: _core.Problem) -> dict[str, HostProduct]:
    """Return the products of the libraries that are installed, by the name of the library; SciPy's comes first.

    None for values of two bytes, which they do not multiply.
    """
    if problem.dtype.itemsize == 2:
        return {}
    arrays = _Arrays(problem)
    return {"scipy": _of_scipy(arrays, problem), **_of_mkl(arrays)}


class _Arrays:
    """The arrays of a matrix as the functions behind SciPy's matrices take them.

    One of SciPy's matrices is only made where it is needed: that takes as long as a tenth of planning a small product.
    """

    def __init__(self, problem: _core.Problem) -> None:
        matrix = problem.matrix
        self.shape = matrix.shape
        # Offsets in the type of the indices, if they fit: SciPy would copy both to the wider one.
        fit = matrix.nnz < 2**31
        self.indptr = matrix.indptr.astype(np.int32) if fit else matrix.indptr
        self.indices = matrix.indices if fit else matrix.indices.astype(np.int64)
        self.data = matrix.data

    def matrix(self) -> Any:
        return scipy.sparse.csr_array((self.data, self.indices, self.indptr), shape=self.shape)


def _of_scipy(A: _Arrays, problem: _core.Problem) -> HostProduct:
    """Return SciPy's product into an array that is there, where SciPy has a function for it."""
    m, n = A.shape
    if problem.layout != "row" and problem.op == "spmm":
        matrix = A.matrix()

        def through_rows(B: Any, C: Any) -> None:
            C[...] = matrix @ B

        return through_rows

    def by_row(B: Any, C: Any) -> None:
        C.fill(0)  # SciPy adds to it
        if B.shape[1] == 1:
            _sparsetools.csr_matvec(m, n, A.indptr, A.indices, A.data, B.reshape(-1), C.reshape(-1))
        else:
            _sparsetools.csr_matvecs(m, n, B.shape[1], A.indptr, A.indices, A.data, B.reshape(-1), C.reshape(-1))

    return by_row


def _of_mkl(A: _Arrays) -> dict[str, HostProduct]:
    multiply = _mkl_product()
    if multiply is None:
        return {}
    matrix = A.matrix()

    def with_mkl(B: Any, C: Any) -> None:
        C[...] = multiply(matrix, B)

    return {"mkl": with_mkl}


@functools.cache
def _mkl_product() -> Callable[[Any, Any], Any] | None:
    """Return the product of sparse_dot_mkl, if it is installed and works."""
    try:
        multiply: Callable[[Any, Any], Any] = importlib.import_module("sparse_dot_mkl").dot_product_mkl
        one = multiply(scipy.sparse.csr_matrix(np.eye(2)), np.ones((2, 1)))
    except Exception:
        return None
    return multiply if np.array_equal(one, np.ones((2, 1))) else None
