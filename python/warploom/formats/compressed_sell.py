"""Sliced ELLPACK with compressed column indices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warploom.formats.padded import SortedSlices

__all__ = ["CompressedSELL"]


class CompressedSELL(SortedSlices):
    """Sliced ELLPACK whose column indices take no more bytes than the columns of a slice need.

    ``32 * rows_per_lane`` consecutive rows form a slice. A slice is padded to the length of its longest row
    and stored slot by slot: one place of every row, then the next of every row. It may be cut into `parts`,
    each with an equal part of every row's entries. Such a segment has one of eight encodings, that which
    takes the fewest bytes:

    ============= ========================================================= ====================
    encoding      column of a place                                         bytes of a place
    ============= ========================================================= ====================
    full_diagonal base of the slot + position of the row in the slice       0, every place is filled
    diagonal      the same, and a bit whether the place holds an entry      1/8
    slot8         base of the slot + 8 bits                                 1
    slice16       base of the segment + 16 bits                             2
    slot16        base of the slot + 16 bits                                2
    delta8        column of the row's place before + 8 bits                 1
    delta16       column of the row's place before + 16 bits                2
    plain         the column                                                4
    ============= ========================================================= ====================

    The base of a slot takes four bytes more for each slot of 32 or more places. Where a gap is too wide for
    delta8 or delta16, a place without an entry holds the distance in the bytes of its value.

    The entries of a row are stored by ascending column, repeated ones in their given order: `to_csr` returns
    them sorted. Sliced ELLPACK is from Monakov, Lokhmotov and Avetisyan (2010).

    Examples
    --------
    >>> import numpy as np, scipy.sparse
    >>> from warploom.formats import CompressedSELL
    >>> A = scipy.sparse.diags_array([np.ones(63), np.full(64, 2.0), np.ones(63)], offsets=[-1, 0, 1])
    >>> stored = CompressedSELL.from_csr(A)
    >>> {name: count for name, count in stored.encodings.items() if count}
    {'diagonal': 1}
    >>> stored.index_bytes_per_nonzero < 1
    True
    """

    name = "compressed-sell"

    __slots__ = ()

    @classmethod
    def from_csr(cls, A: Any, *, rows_per_lane: int = 2, sort_window: int = 1, parts: int = 1) -> CompressedSELL:
        """Store a matrix in this format.

        Parameters
        ----------
        A : sparse matrix, shape (m, n)
            Values are float16, float32 or float64; integers and booleans become float64.
        rows_per_lane : {1, 2, 4}
            A slice has 32 times as many rows.
        sort_window : int
            Rows are stored by descending length within this many consecutive rows, which pads less where
            lengths differ. 1 leaves them as they are.
        parts : {1, 2, 4, 8}
            Segments of a slice.

        Returns
        -------
        CompressedSELL

        Raises
        ------
        ParameterError
            A parameter has another value.
        DtypeError
            The values have another type.
        InvalidMatrixError
            The arrays do not form a matrix.
        IndexOverflowError
            The matrix has 2^31 rows or more, or too many slots.
        """
        return cls._store(A, rows_per_lane=rows_per_lane, sort_window=sort_window, parts=parts)

    @property
    def rows_per_lane(self) -> int:
        """Rows of a slice, divided by 32."""
        return int(self._core.scalar("rows_per_lane"))

    @property
    def parts(self) -> int:
        """Segments of a slice."""
        return int(self._core.scalar("parts"))

    @property
    def encodings(self) -> dict[str, int]:
        """Number of segments in each encoding, without those that have no places."""
        return {name: count for name, (count,) in self._core.counts("encodings").items()}

    @property
    def index_bytes_per_nonzero(self) -> float:
        """Bytes of everything but the values and their padding, for each entry; 0 without entries."""
        return (self.nbytes - self.places * self.dtype.itemsize) / self.nnz if self.nnz else 0.0

    @property
    def segments(self) -> NDArray[np.uint32]:
        """One row for each segment: first slot, 8 times the number of slots plus encoding, first index, base.

        The first index counts units of 16 bytes of `indices`. The base is a signed number.
        """
        return self._core.array("segments")

    @property
    def indices(self) -> NDArray[np.uint8]:
        """Bytes of the slot bases, presence bits and codes of the segments."""
        return self._core.array("indices")

    @property
    def data(self) -> NDArray[Any]:
        """Value of each place; 0, or the bits of a distance, where there is no entry."""
        return self._core.array("data")
