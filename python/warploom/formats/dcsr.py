"""Doubly compressed sparse row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from warploom.formats.base import EntryFormat

__all__ = ["DCSR"]


class DCSR(EntryFormat):
    """Doubly compressed sparse row: CSR that leaves out the rows without entries.

    Row ``row_ids[p]`` has the entries ``indptr[p]`` to ``indptr[p + 1]`` (exclusive) of ``indices`` and
    ``data``. Nothing is padded. The format is from Buluc and Gilbert (2008). Mehrabi et al. (2021), Fig. 1,
    call ``row_ids`` rowptr, ``indptr`` rowidx, ``indices`` colidx and ``data`` value.

    Examples
    --------
    >>> import scipy.sparse
    >>> from warploom.formats import DCSR
    >>> A = scipy.sparse.csr_array([[0.0, 1, 0, 2], [0, 0, 0, 0], [0, 0, 0, 0], [3, 0, 0, 0]])
    >>> stored = DCSR.from_csr(A)
    >>> stored.row_ids.tolist(), stored.indptr.tolist(), stored.indices.tolist()
    ([0, 3], [0, 2, 3], [1, 3, 0])
    """

    name = "dcsr"

    __slots__ = ()

    @property
    def row_ids(self) -> NDArray[np.int32]:
        """Rows that have entries, ascending."""
        return self._core.array("row_ids")

    @property
    def indptr(self) -> NDArray[np.int64]:
        """Where each row of `row_ids` starts in `indices` and `data`, and where the last ends."""
        return self._core.array("indptr")
