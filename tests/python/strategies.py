"""Hypothesis strategies that the tests share."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from hypothesis import strategies as st


def _values(draw, count, dtype, allow_nonfinite):
    width = np.dtype(dtype).itemsize * 8
    # Small integers keep sums exact and make stored zeros and cancellation likely.
    one = st.integers(-4, 4).map(float)
    if allow_nonfinite:
        one = one | st.floats(width=width)
    return np.array(draw(st.lists(one, min_size=count, max_size=count)), dtype=dtype)


@st.composite
def csr_matrices(draw, max_rows=12, max_cols=12, dtypes=(np.float32, np.float64), allow_nonfinite=False):
    """Return any CSR matrix a caller may hand over.

    Rows may be empty and of very different lengths, their indices unsorted and repeated, values zero, and the
    matrix may have no rows or no columns.
    """
    num_rows = draw(st.integers(0, max_rows))
    num_cols = draw(st.integers(0, max_cols))
    row = st.lists(st.integers(0, num_cols - 1), max_size=2 * max_cols) if num_cols else st.just([])
    rows = draw(st.lists(st.just([]) | row, min_size=num_rows, max_size=num_rows))
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    indices = np.array([column for columns in rows for column in columns], dtype=np.int32)
    data = _values(draw, len(indices), draw(st.sampled_from(list(dtypes))), allow_nonfinite)
    return scipy.sparse.csr_array((data, indices, indptr), shape=(num_rows, num_cols))
