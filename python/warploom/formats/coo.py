"""Coordinates: row, column and value of every entry."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from warploom.formats.base import EntryFormat

__all__ = ["COO"]


class COO(EntryFormat):
    """Coordinates: ``row_indices[j]``, ``indices[j]`` and ``data[j]`` are row, column and value of entry j.

    Entries are stored row after row, those of a row in the order of the CSR matrix. Nothing is padded. Koza et al.
    (2014), Sec. 2.3, call the arrays RowInd, ColInd and Val.

    Examples
    --------
    >>> import scipy.sparse
    >>> from warploom.formats import COO
    >>> stored = COO.from_csr(scipy.sparse.csr_array([[1.0, 0, 2], [0, 3, 0]]))
    >>> stored.row_indices.tolist(), stored.indices.tolist()
    ([0, 0, 1], [0, 2, 1])
    """

    name = "coo"

    __slots__ = ()

    @property
    def row_indices(self) -> NDArray[np.int32]:
        """Row of each entry; never decreases."""
        return self._core.array("row_indices")
