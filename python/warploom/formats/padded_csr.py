"""CSR with all rows padded to one length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warploom.formats.padded import PaddedFormat

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["PaddedCSR"]


class PaddedCSR(PaddedFormat):
    """CSR whose rows are all padded to the same number of places, so that it needs no row offsets.

    Row i of ``indices`` and ``data`` has the columns and values of the entries of row i in their order, then
    columns of -1 and values of 0 as padding. A thread finds its row without loading an offset first, which is one
    memory latency less: small products consist of little else. The width is a multiple of 4, so that four columns
    or values are loaded at once. Unlike `ELL`, the arrays are stored row by row.

    Examples
    --------
    >>> import scipy.sparse
    >>> from warploom.formats import PaddedCSR
    >>> stored = PaddedCSR.from_csr(scipy.sparse.csr_array([[1.0, 0, 2], [0, 3, 0]]))
    >>> stored.indices.tolist(), stored.data.tolist()
    ([[0, 2, -1, -1], [1, -1, -1, -1]], [[1.0, 2.0, 0.0, 0.0], [3.0, 0.0, 0.0, 0.0]])
    """

    name = "padded-csr"

    __slots__ = ()

    @classmethod
    def from_csr(cls, A: Any, max_width: int | None = None) -> Self:
        """Store a matrix in this format.

        Parameters
        ----------
        A : sparse matrix, shape (m, n)
            Values are float16, float32 or float64; integers and booleans become float64.
        max_width : int, optional
            Entries the longest row may have. By default any width that stores at most four places for each
            nonzero, and 4,096 more.

        Returns
        -------
        PaddedCSR
            The matrix in this format.

        Raises
        ------
        ParameterError
            A row is longer than `max_width`, or by default the padding would be out of proportion.
        DtypeError
            The values have another type.
        InvalidMatrixError
            The arrays do not form a matrix.
        """
        return cls._store(A, max_width=max_width)

    @property
    def width(self) -> int:
        """Places of a row: the length of the longest one, rounded up to a multiple of 4."""
        return int(self._core.scalar("width"))

    @property
    def indices(self) -> NDArray[np.int32]:
        """Column of each place, -1 where it holds no entry; shape (m, width)."""
        return self._core.array("indices").reshape(self.num_rows, self.width)

    @property
    def data(self) -> NDArray[Any]:
        """Value of each place, 0 where it holds no entry; shape (m, width)."""
        return self._core.array("data").reshape(self.num_rows, self.width)
