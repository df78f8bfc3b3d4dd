"""The boundary: whatever the caller holds becomes one validated CSR view."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from warploom import _core

__all__ = ["as_csr"]


def as_csr(A: Any, *, dtype: Any = None, pattern_only: bool = False) -> _core.CsrView:
    """Validate a sparse matrix and view it as CSR.

    Parameters
    ----------
    A : scipy.sparse matrix or array, torch CSR tensor or CuPy sparse matrix, shape (m, n)
    dtype : numpy dtype, optional
        Value type of the view; by default that of `A` if it is float32 or float64, else float64.
    pattern_only : bool
        Leave the values out.

    Returns
    -------
    _core.CsrView
        Looks at the arrays of `A` where their types allow.
    """
    if isinstance(A, _core.CsrView):
        return A
    csr = scipy.sparse.csr_array(A)
    indptr = np.ascontiguousarray(csr.indptr, dtype=np.int64)
    indices = np.ascontiguousarray(csr.indices, dtype=np.int32)
    data = None if pattern_only else np.ascontiguousarray(csr.data, dtype=dtype or csr.data.dtype)
    return _core.CsrView(indptr, indices, data, *csr.shape)
