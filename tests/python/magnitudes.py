"""Values at the ends of their type's range, and sums that cancel, against sums in extended precision."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from battery import typed
from products import ORDER, unwritten, widened
from warploom import _bfloat16, _core
from warploom._matrix import as_csr
from warploom.candidates import Candidate

__all__ = ["KINDS", "check"]

KINDS = ("subnormal", "tiny times huge", "huge", "wide range", "cancelling")
# Smallest normal number, largest number, smallest subnormal.
RANGES = {
    "float16": (2.0**-14, 65504.0, 2.0**-24),
    "bfloat16": (2.0**-126, float(2.0**127 * (2 - 2.0**-7)), 2.0**-133),
    "float32": (2.0**-126, float(np.finfo(np.float32).max), 2.0**-149),
    "float64": (2.0**-1022, float(np.finfo(np.float64).max), 5e-324),
}


def _operands(kind: str, name: str, columns: int) -> tuple[csr_array, np.ndarray]:
    """Draw a matrix of 90 rows of 0 to 40 nonzeros, and what it multiplies, in float64."""
    rng = np.random.default_rng(KINDS.index(kind))
    smallest, largest, _ = RANGES[name]
    m, n = 90, 70
    lengths = rng.integers(0, 21, m) * 2
    rows = [rng.choice(n, length, replace=False) for length in lengths]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    a, B = rng.uniform(-1, 1, indptr[-1]), rng.uniform(-1, 1, (n, columns))
    exponent = np.log2(largest)
    if kind == "subnormal":
        a *= smallest / 2
    elif kind == "tiny times huge":
        a *= 4 * smallest
        B *= min(1 / smallest, largest / 2)
    elif kind == "huge":
        a *= largest / 64
    elif kind == "wide range":
        a *= 2.0 ** np.round(rng.uniform(-exponent / 3, exponent / 3, len(a)))
        B *= 2.0 ** np.round(rng.uniform(-exponent / 3, exponent / 3, B.shape))
    else:  # pairs that cancel but for their last bits
        a[1::2] = -a[::2]
        B[:] = 1 + rng.uniform(0, 1e-3, B.shape)
    return csr_array((a, np.concatenate(rows).astype(np.int32), indptr), shape=(m, n)), B


def check(kernel, layout: str, dtype: str, kind: str, device: int) -> bool:
    """Multiply on a GPU, or on the CPU for -1, and compare row by row; False if the kernel refuses the matrix."""
    columns = 1 if kernel.op == "spmv" else 5
    a, b = _operands(kind, dtype, columns)
    value_type = _bfloat16.as_dtype(dtype)
    A, B = typed(a, value_type), np.asarray(_bfloat16.cast(b, value_type), order=ORDER[layout])
    problem = _core.Problem(as_csr(A), kernel.op, columns, layout, "warm", device)
    candidate = Candidate.make(kernel)
    if problem.reason_against(candidate):
        return False
    C = unwritten((A.shape[0], columns), B.dtype, ORDER[layout])
    _core.prepare(problem, candidate).run_host(B, C)

    values, dense, found = (widened(array).astype(np.longdouble) for array in (A.data, B, C))
    half = value_type.itemsize == 2
    eps = np.finfo(np.float32 if half else value_type).eps
    smallest, _, subnormal = RANGES[dtype]
    if kernel.precision == "tf32":
        eps = 2.0**-9
        subnormal = smallest  # tensor cores may take subnormal numbers for zeros
    for row in range(A.shape[0]):
        begin, end = A.indptr[row], A.indptr[row + 1]
        terms = values[begin:end, None] * dense[A.indices[begin:end]]
        exact = terms.sum(axis=0)
        bound = eps * (end - begin + 2) * abs(terms).sum(axis=0) + (end - begin + 1) * np.longdouble(subnormal)
        if half:
            bound = bound + _bfloat16.eps_of(value_type) * abs(exact)
        assert (abs(found[row] - exact) <= bound).all(), (row, found[row], exact, bound)
    return True
