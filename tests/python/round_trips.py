"""What the tests of single formats share: comparing matrices, and products on the CPU."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from products import assert_product, prepare_product
from warploom._matrix import as_csr

__all__ = ["DTYPES", "assert_round_trip", "assert_spmv", "koza_2_1", "mehrabi_1", "spmv"]

DTYPES = (np.float16, np.float32, np.float64)


def koza_2_1():
    """Return the matrix (2.1) of Koza et al. 2014."""
    dense = [[1, 0, 0, 2, 0], [0, 3, 0, 0, 4], [0, 0, 5, 0, 6], [0, 0, 7, 8, 9], [0, 0, 0, 0, 10]]
    return scipy.sparse.csr_array(np.array(dense, dtype=np.float64))


def mehrabi_1():
    """Return the matrix of Mehrabi et al. 2021, Fig. 1, with a01 = 1, a03 = 2, a30 = 3."""
    return scipy.sparse.csr_array(np.array([[0.0, 1, 0, 2], [0] * 4, [0] * 4, [3, 0, 0, 0]]))


def assert_round_trip(stored, A):
    """Check that every array comes back as it was; NaN equals NaN."""
    assert stored.shape == A.shape
    assert stored.dtype == A.dtype
    assert stored.nnz == A.nnz
    data, indices, indptr = stored._core.to_csr()  # SciPy makes no float16 matrix of arrays
    assert data.dtype == A.dtype
    np.testing.assert_array_equal(indptr, A.indptr)
    np.testing.assert_array_equal(indices, A.indices)
    np.testing.assert_array_equal(data, A.data)
    if A.dtype != np.float16:
        np.testing.assert_array_equal(stored.to_csr().data, A.data)


def spmv(A, kernel, x, **parameters):
    """Multiply on the CPU; y is full of NaN before."""
    kernel_format, name = kernel.split("/")
    plan = prepare_product("spmv", as_csr(A), kernel_format, name, 1, "column", parameters, None, -1)
    y = np.full(A.shape[0], np.nan, dtype=A.dtype)
    plan.run_host(np.asarray(x, dtype=A.dtype).reshape(-1, 1), y.reshape(-1, 1))
    return y


def assert_spmv(A, kernel, **parameters):
    """Check a product with a random vector against float64 sums."""
    x = np.random.default_rng(0).standard_normal(A.shape[1]).astype(A.dtype)
    y = spmv(A, kernel, x, **parameters)
    assert_product(A, x[:, None], y[:, None])
