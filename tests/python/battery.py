"""Small matrices that break careless kernels, by name."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, random_array

from warploom import _bfloat16

__all__ = ["battery", "typed"]


def typed(matrix, dtype) -> csr_array:
    """Return the matrix with its values in another type, also in one that SciPy makes no matrix of."""
    result = csr_array((matrix.data.astype(np.float64), matrix.indices, matrix.indptr), shape=matrix.shape)
    result.data = _bfloat16.cast(matrix.data, np.dtype(dtype))
    return result


def _from_rows(shape, rows, dtype) -> csr_array:
    """Build what `rows` says: lists of (column, value) pairs, neither sorted nor merged."""
    indptr = np.cumsum([0, *(len(row) for row in rows)])
    indices = np.array([column for row in rows for column, _ in row], dtype=np.int32)
    data = np.array([value for row in rows for _, value in row], dtype=dtype)
    return csr_array((data, indices, indptr), shape=shape)


def _random(m, n, density, dtype, seed) -> csr_array:
    rng = np.random.default_rng(seed)
    matrix = csr_array(random_array((m, n), density=density, rng=rng, format="csr"))
    matrix.data[:] = rng.standard_normal(matrix.nnz)
    # SciPy stores float16 but does not convert to it.
    return csr_array((matrix.data.astype(dtype), matrix.indices, matrix.indptr), shape=matrix.shape)


def _one_giant_row(dtype) -> csr_array:
    rng = np.random.default_rng(1)
    rows = [[(3, 1.0)], list(enumerate(rng.standard_normal(1500))), [], [(1499, -2.0)]]
    return _from_rows((4, 1500), rows, dtype)


def _empty_rows(dtype) -> csr_array:
    rows = [[], [], [(2, 1.5), (0, -1.0)], [], [(4, 2.0)], []]
    return _from_rows((6, 5), rows, dtype)


def _duplicates_unsorted(dtype) -> csr_array:
    rows = [[(3, 1.0), (0, 2.0), (3, 0.5), (1, -1.0)], [(2, 1.0), (2, 1.0), (2, -2.0)], [(1, 4.0), (0, 3.0)]]
    return _from_rows((3, 4), rows, dtype)


def _explicit_zeros(dtype) -> csr_array:
    rows = [[(0, 0.0), (1, 2.0)], [(1, 0.0)], [(0, -0.0), (2, 1.0), (1, 0.0)]]
    return _from_rows((3, 3), rows, dtype)


def _nan_inf(dtype) -> csr_array:
    inf, nan = np.inf, np.nan
    rows = [[(0, nan), (1, 1.0)], [(0, inf)], [(1, -inf), (2, inf)], [(2, 0.0), (0, 1.0)], [], [(2, 3.0)]]
    return _from_rows((6, 3), rows, dtype)


def _tridiagonal(dtype, n=70) -> csr_array:
    rows = [[(j, 2.0 if i == j else -1.0) for j in (i - 1, i, i + 1) if 0 <= j < n] for i in range(n)]
    return _from_rows((n, n), rows, dtype)


def _arrow(dtype, n=300) -> csr_array:
    first = [(j, 1.0 / (j + 1)) for j in range(n)]
    return _from_rows((n, n), [first, *([(0, float(i)), (i, -0.5)] for i in range(1, n))], dtype)


def battery(dtype) -> dict[str, csr_array]:
    """Return the matrices, their values of the given dtype."""
    if _bfloat16.is_bfloat16(np.dtype(dtype)):
        return {name: typed(matrix, dtype) for name, matrix in battery(np.float32).items()}
    return {
        "empty 0x0": _from_rows((0, 0), [], dtype),
        "empty 0xn": _from_rows((0, 7), [], dtype),
        "empty nx0": _from_rows((7, 0), [[]] * 7, dtype),
        "no nonzeros": _from_rows((5, 4), [[]] * 5, dtype),
        "single entry": _from_rows((1, 1), [[(0, -3.0)]], dtype),
        "empty rows": _empty_rows(dtype),
        "one giant row": _one_giant_row(dtype),
        "diagonal": _from_rows((40, 40), [[(i, i + 0.5)] for i in range(40)], dtype),
        "dense": _random(20, 33, 1.0, dtype, seed=2),
        "duplicates unsorted": _duplicates_unsorted(dtype),
        "explicit zeros": _explicit_zeros(dtype),
        "nan inf": _nan_inf(dtype),
        "tridiagonal": _tridiagonal(dtype),
        "random": _random(150, 120, 0.05, dtype, seed=3),
        "random wide": _random(30, 900, 0.2, dtype, seed=4),
        "random tall": _random(900, 30, 0.1, dtype, seed=5),
        "arrow": _arrow(dtype),
    }
