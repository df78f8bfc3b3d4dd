"""Column vectors of eight or sixteen rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warploom.formats.padded import PaddedFormat

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ColumnVectors"]


class ColumnVectors(PaddedFormat):
    """Column vectors: dense blocks of `vector_rows` rows and one column wherever one of the rows has an entry.

    Window i, rows ``vector_rows * i`` to ``vector_rows * (i + 1)`` (exclusive), has the vectors ``indptr[i]`` to
    ``indptr[i + 1]`` (exclusive); ``indices`` has their columns, ascending, and ``data`` their places, one for each row
    of the window. Places without an entry, and rows past the end of the matrix, hold 0, and a product on tensor cores
    multiplies them: a NaN or infinity of B reaches all rows of the windows with a vector in its column.

    `to_csr` leaves the padding out and keeps stored zeros. It gives the entries of a row in the order of their
    columns, with repeated ones added; `nnz` counts those as one.

    Examples
    --------
    >>> import scipy.sparse
    >>> from warploom.formats import ColumnVectors
    >>> stored = ColumnVectors.from_csr(scipy.sparse.csr_array([[1.0, 0, 0, 2], [0, 3, 0, 4]]))
    >>> stored.indices.tolist(), stored.data[:, :2].tolist()
    ([0, 1, 3], [[1.0, 0.0], [0.0, 3.0], [2.0, 4.0]])
    """

    name = "column-vectors"

    __slots__ = ()

    @classmethod
    def from_csr(cls, A: Any, *, vector_rows: int = 8) -> Self:
        """Store a matrix in this format.

        Parameters
        ----------
        A : sparse matrix, shape (m, n)
            Values are float16, bfloat16, float32 or float64; integers and booleans become float64.
        vector_rows : {8, 16}
            Rows of a window.

        Returns
        -------
        ColumnVectors
            The matrix in this format.

        Raises
        ------
        DtypeError
            The values have another type.
        InvalidMatrixError
            The arrays do not form a matrix.
        ParameterError
            `vector_rows` has another value.
        """
        return cls._store(A, vector_rows=vector_rows)

    @property
    def vector_rows(self) -> int:
        """Rows of a window."""
        return int(self._core.scalar("block_size"))

    @property
    def indptr(self) -> NDArray[np.int64]:
        """Where each window starts in `indices` and `data`, and where the last ends."""
        return self._core.array("indptr")

    @property
    def indices(self) -> NDArray[np.int32]:
        """Column of each vector."""
        return self._core.array("indices")

    @property
    def data(self) -> NDArray[Any]:
        """Places of the vectors; shape (vectors, vector_rows)."""
        return self._core.array("data").reshape(-1, self.vector_rows)
