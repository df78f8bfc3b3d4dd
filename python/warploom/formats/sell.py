"""Sliced ELL with rows sorted in windows: SELL-C-sigma."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warploom.formats.padded import PlaceArrays, SortedSlices

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["SELL"]


class SELL(SortedSlices, PlaceArrays):
    """Sliced ELL: slices of rows, each padded to the longest of its rows and stored column by column.

    Stored row p is row ``row_ids[p]`` of the matrix, and row r of slice s is stored row
    ``s * slice_height + r``. Its entry j is at ``slice_ptr[s] + j * slice_height + r`` of ``indices``
    and ``data``; a column of -1 marks a place without an entry. Within every window of ``sort_window`` rows the
    rows are sorted by decreasing length, those of one length in their original order. The format is from Monakov
    et al. (2010) and, with the sorting, from Kreutzer et al. (2014), who call it SELL-C-sigma.

    Examples
    --------
    >>> import scipy.sparse
    >>> from warploom.formats import SELL
    >>> A = scipy.sparse.csr_array([[1.0, 0, 2], [0, 3, 0], [4, 5, 6], [0, 0, 0]])
    >>> stored = SELL.from_csr(A, slice_height=2)
    >>> stored.slice_ptr.tolist(), stored.indices.tolist()
    ([0, 4, 10], [0, 1, 2, -1, 0, -1, 1, -1, 2, -1])
    >>> SELL.from_csr(A, slice_height=2, sort_window=4).row_ids.tolist()
    [2, 0, 1, 3]
    """

    name = "sell"

    __slots__ = ()

    @classmethod
    def from_csr(cls, A: Any, slice_height: int = 32, sort_window: int = 1) -> Self:
        """Store a matrix in this format.

        Parameters
        ----------
        A : sparse matrix, shape (m, n)
            Values are float16, float32 or float64; integers and booleans become float64.
        slice_height : int
            Rows of a slice (C), at least 1.
        sort_window : int
            Consecutive rows that are sorted by length (sigma), at least 1. 1 keeps the order of the matrix.

        Returns
        -------
        SELL
            The matrix in this format.

        Raises
        ------
        ParameterError
            `slice_height` or `sort_window` is below 1.
        DtypeError
            The values have another type.
        InvalidMatrixError
            The arrays do not form a matrix.
        """
        return cls._store(A, slice_height=slice_height, sort_window=sort_window)

    @property
    def slice_height(self) -> int:
        """Rows of a slice."""
        return int(self._core.scalar("slice_height"))

    @property
    def slice_ptr(self) -> NDArray[np.int64]:
        """Where each slice starts in `indices` and `data`, and where the last ends."""
        return self._core.array("slice_ptr")
