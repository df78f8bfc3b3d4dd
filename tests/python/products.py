"""Helpers of the tests of products: operands, parameters, and the check of a result."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.sparse import csr_array

from warploom import _bfloat16, _core
from warploom._matrix import as_csr
from warploom.candidates import Candidate, find_kernel

__all__ = [
    "ORDER",
    "assert_product",
    "magnitudes",
    "operand",
    "parameter_sets",
    "permutations_of",
    "prepare_product",
    "prepare_spmv",
    "reason_against",
    "tensor_of",
    "tried_settings",
    "unwritten",
    "vector",
    "widened",
]

ORDER = {"row": "C", "column": "F"}


def parameter_sets(kernel):
    """Yield the defaults, then every other accepted value with the remaining parameters at their defaults."""
    yield {}
    for p in kernel.parameters:
        yield from ({p.name: value} for value in p.values if value != p.default)


def tried_settings(kernel):
    """Yield every setting of the parameters that selection by measurement tries on a GPU."""
    names = [p.name for p in kernel.parameters]
    for values in itertools.product(*(p.tried for p in kernel.parameters)):
        yield dict(zip(names, values, strict=True))


def permutations_of(kernel, rows):
    """Yield no permutation, then a reversal and a shuffle of the rows if the kernel takes one."""
    yield None
    if kernel.permutes:
        yield np.arange(rows, dtype=np.int32)[::-1].copy()
        yield np.random.default_rng(0).permutation(rows).astype(np.int32)


def prepare_spmv(matrix, kernel, parameters=None, perm=None, *, device=-1):
    """Prepare a product with one vector on a GPU, or on the CPU for -1; None if the kernel refuses the matrix."""
    candidate = Candidate.make(kernel, "none", parameters)
    problem = _core.Problem(as_csr(matrix), "spmv", 1, "column", "warm", device)
    if problem.reason_against(candidate):
        return None
    return _core.prepare(problem, candidate, None if perm is None else (perm, 0.0))


def reason_against(op, view, kernel_format, name, k, layout, parameters=None, perm=None):
    """Return why a kernel given by its names refuses a matrix, or the empty string."""
    candidate = Candidate.make(find_kernel(op, kernel_format, name), "none", parameters)
    return _core.Problem(view, op, k, layout, "warm", -1).reason_against(candidate)


def prepare_product(op, view, kernel_format, name, k, layout, parameters=None, perm=None, device=-1):
    """Prepare a kernel given by its names, for any row permutation."""
    candidate = Candidate.make(find_kernel(op, kernel_format, name), "none", parameters)
    problem = _core.Problem(view, op, k, layout, "warm", device)
    return _core.prepare(problem, candidate, None if perm is None else (perm, 0.0))


def spoil(matrix):
    """Write what no matrix may hold into the arrays of one, column indices far beyond its columns among them."""
    for array in (matrix.indptr, matrix.indices, matrix.data):
        with np.errstate(over="ignore"):  # of float16
            array[...] = 2**30


def vector(size, dtype, seed=0):
    return _bfloat16.cast(np.random.default_rng(seed).standard_normal(size), np.dtype(dtype))


def operand(shape, dtype, layout, seed=0):
    values = _bfloat16.cast(np.random.default_rng(seed).standard_normal(shape), np.dtype(dtype))
    return np.asarray(values, order=ORDER[layout])


def unwritten(shape, dtype, order="C"):
    """Return an array of NaN, to be overwritten."""
    return np.asarray(_bfloat16.cast(np.full(shape, np.nan, np.float32), np.dtype(dtype)), order=order)


def widened(array):
    """Return an array as NumPy computes with it, in float64."""
    return _bfloat16.cast(array, np.dtype(np.float64))


def tensor_of(array):
    """Return a tensor of PyTorch that holds the same, also in bfloat16."""
    import torch

    if not _bfloat16.is_bfloat16(array.dtype):
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)


def magnitudes(matrix):
    """|A| in float64, duplicates kept apart: SciPy's abs() would add them up first."""
    return csr_array((abs(widened(matrix.data)), matrix.indices, matrix.indptr), shape=matrix.shape)


def _bytes_of(*arrays):
    return [(a.dtype, a.shape, np.ascontiguousarray(a).tobytes()) for a in arrays]


_last = None
"""Operands of the last product, and what is expected of it: many kernels are often given the same."""


def _expected(matrix, B):
    """Return sums in float64, those of magnitudes, and the product as SciPy has it."""
    global _last
    key = [matrix.shape, *_bytes_of(matrix.data, matrix.indices, matrix.indptr, B)]
    if _last is None or _last[0] != key:
        with np.errstate(invalid="ignore", over="ignore"):
            exact = csr_array((widened(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape) @ widened(B)
            scale = magnitudes(matrix) @ abs(widened(B))
            half = B.dtype.itemsize == 2
            expected = widened(_bfloat16.cast(exact, B.dtype)) if half else matrix @ B
        _last = key, (exact, scale, expected)
    return _last[1]


def assert_product(matrix, B, C, vendor=False, precision="full"):
    """Check C row by row against float64 sums, within rounding; what is not finite must equal SciPy's.

    Products of float16 and bfloat16 are summed in float32 and rounded once more: a sum in float32 is off by at most
    2^-24 of |A| |B| for each nonzero. The vendor's library, which adds up in two bytes where blocks of threads meet, is
    held to the precision of its values. In TF32 both operands are rounded to 11 significant bits before.
    """
    half = B.dtype.itemsize == 2
    exact, scale, expected = _expected(matrix, B)
    assert C.dtype == B.dtype
    assert C.shape == expected.shape
    C = widened(C) if half else C
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(C[~finite], expected[~finite])
    nnz_row = np.diff(matrix.indptr)[:, None]
    eps = np.finfo(np.float32 if half else B.dtype).eps
    if half and vendor:
        eps = _bfloat16.eps_of(B.dtype)
    bound = np.broadcast_to(eps * (nnz_row + 2) * np.where(finite, scale, 0), C.shape)
    if precision == "tf32":
        bound = bound + (2 * 2.0**-11 + 2.0**-21) * np.where(finite, scale, 0)
    if half:
        smallest = 2.0**-24 if B.dtype == np.float16 else 2.0**-133
        bound = bound + np.where(finite, _bfloat16.eps_of(B.dtype) * abs(exact) + smallest, 0)
    assert np.all(abs(C[finite] - exact[finite]) <= bound[finite])
