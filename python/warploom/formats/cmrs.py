"""Compressed multi-row storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warploom.formats.padded import PlaceArrays

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["CMRS"]


class CMRS(PlaceArrays):
    """Compressed multi-row storage of Koza et al. (2014): CSR whose rows are grouped into strips.

    Strip s has the rows ``s * height`` to ``(s + 1) * height`` (exclusive) of the matrix and the places
    ``strip_ptr[s]`` to ``strip_ptr[s + 1]`` (exclusive) of ``indices``, ``row_in_strip`` and ``data``.

    Examples
    --------
    The matrix of the paper's eq. 2.1, in strips of two rows:

    >>> import scipy.sparse
    >>> from warploom.formats import CMRS
    >>> M = [[1.0, 0, 0, 2, 0], [0, 3, 0, 0, 4], [0, 0, 5, 0, 6], [0, 0, 7, 8, 9], [0, 0, 0, 0, 10]]
    >>> stored = CMRS.from_csr(scipy.sparse.csr_array(M), height=2)
    >>> stored.strip_ptr.tolist(), stored.row_in_strip.tolist()
    ([0, 4, 9, 10], [0, 0, 1, 1, 0, 0, 1, 1, 1, 0])
    """

    name = "cmrs"

    __slots__ = ()

    @classmethod
    def from_csr(
        cls,
        A: Any,
        height: int = 8,
        *,
        packed: bool = True,
        sort_columns: bool = False,
        modulo: int | None = None,
    ) -> Self:
        """Store a matrix in this format.

        Parameters
        ----------
        A : sparse matrix, shape (m, n)
            Values are float16, float32 or float64; integers and booleans become float64.
        height : int
            Rows of a strip: 1 to 16 in the packed form, 1 to 256 in the other.
        packed : bool
            Whether the row within the strip (4 bits) and the column (28 bits) share one word (Sec. 4).
        sort_columns : bool
            Order the entries of a strip by column (Sec. 4). Those of one column keep their order, but `to_csr`
            then gives the entries of a row by column, too.
        modulo : int, optional
            Arrange the entries of a strip for the paper's modified kernel (Sec. 6.7): in groups of 32 that hold
            at most this many entries (1 to 32) of any one row, in consecutive places. A group that the rows do not fill
            ends in empty places, with index -1. A strip has the minimum number of groups for this.

        Returns
        -------
        CMRS

        Raises
        ------
        ParameterError
            `height` or `modulo` is out of range, or `sort_columns` and `modulo` are both given.
        IndexOverflowError
            The packed form cannot hold the columns of the matrix: more than 2^28, or 2^28 - 1 with `modulo`.
        DtypeError
            The values have another type.
        InvalidMatrixError
            The arrays do not form a matrix.
        """
        return cls._store(A, height=height, packed=packed, sort_columns=sort_columns, modulo=modulo)

    @property
    def height(self) -> int:
        """Rows of a strip."""
        return int(self._core.scalar("height"))

    @property
    def packed(self) -> bool:
        """Whether rows and columns are stored together, as `words`."""
        return bool(self._core.scalar("packed"))

    @property
    def sort_columns(self) -> bool:
        """Whether the entries of a strip are sorted by column."""
        return bool(self._core.scalar("sort_columns"))

    @property
    def modulo(self) -> int | None:
        """Maximum number of entries of a row in a group of 32 places, or None for strips without groups."""
        modulo: int | None = self._core.scalar("modulo")
        return modulo

    @property
    def num_strips(self) -> int:
        """Number of strips of the matrix: m / height, rounded up."""
        return len(self.strip_ptr) - 1

    @property
    def strip_ptr(self) -> NDArray[np.int64]:
        """Where each strip starts in the other arrays, and where the last ends. The paper's StripPtr."""
        return self._core.array("strip_ptr")

    @property
    def words(self) -> NDArray[np.uint32]:
        """What the packed form stores for each place: ``16 * column + row_in_strip``; empty in the unpacked form.

        An empty place has ``2**32 - 1``.
        """
        return self._core.array("words")

    @property
    def indices(self) -> NDArray[np.int32]:
        """Column of each place, -1 where it is empty. A copy if the matrix is packed."""
        return self._core.array("indices")

    @property
    def row_in_strip(self) -> NDArray[np.uint8]:
        """Row of each place, counted from the first of its strip. A copy if the matrix is packed."""
        return self._core.array("row_in_strip")
