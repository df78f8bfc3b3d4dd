"""CSR whose long rows are cut into segments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warploom.formats.base import EntryFormat

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["SegmentedCSR"]


class SegmentedCSR(EntryFormat):
    """CSR whose rows are found by segments of at most `segment_length` entries, so that work is even.

    Segment s has the entries ``begin`` to ``begin + length`` (exclusive) of ``indices`` and ``data``, where
    ``row, begin, length, partial = segments[s]``. A row that fits into one segment is complete with it, and
    ``partial`` is -1. The segments of a longer row make the partial sums with these numbers, which are added in
    the order that ``split_rows`` says. Every row has a segment, also one without entries; one that would have more
    than 1,024 has longer ones instead.

    Examples
    --------
    >>> import scipy.sparse
    >>> from warploom.formats import SegmentedCSR
    >>> A = scipy.sparse.csr_array([[1.0, 0, 0], [0, 0, 0], [2, 3, 4]])
    >>> stored = SegmentedCSR.from_csr(A, segment_length=2, longest_first=False)
    >>> stored.segments.tolist()
    [[0, 0, 1, -1], [1, 1, 0, -1], [2, 1, 2, 0], [2, 3, 1, 1]]
    >>> stored.split_rows.tolist()
    [[2, 0, 2]]
    """

    name = "segmented-csr"

    __slots__ = ()

    @classmethod
    def from_csr(cls, A: Any, *, segment_length: int = 128, longest_first: bool = True) -> Self:
        """Store a matrix in this format.

        Parameters
        ----------
        A : sparse matrix, shape (m, n)
            Values are float16, float32 or float64; integers and booleans become float64.
        segment_length : int
            Entries of a segment, at least 1.
        longest_first : bool
            Store the segments by falling length instead of in the order of the rows, so that long work starts
            early.

        Returns
        -------
        SegmentedCSR
            The matrix in this format.

        Raises
        ------
        ParameterError
            `segment_length` is below 1.
        DtypeError
            The values have another type.
        InvalidMatrixError
            The arrays do not form a matrix.
        IndexOverflowError
            The matrix has 2^31 entries or more.
        """
        return cls._store(A, segment_length=segment_length, longest_first=longest_first)

    @property
    def segment_length(self) -> int:
        """Most entries of a segment, unless its row would have more than 1,024 of them."""
        return int(self._core.scalar("segment_length"))

    @property
    def longest_first(self) -> bool:
        """Whether the segments stand by falling length."""
        return bool(self._core.scalar("longest_first"))

    @property
    def segments(self) -> NDArray[np.int32]:
        """Row, first entry, number of entries and number of the partial sum, or -1, of each segment; shape (s, 4)."""
        return self._core.array("segments")

    @property
    def split_rows(self) -> NDArray[np.int32]:
        """Row, first partial sum and number of partial sums of each row of several segments; shape (r, 3)."""
        return self._core.array("split_rows")
