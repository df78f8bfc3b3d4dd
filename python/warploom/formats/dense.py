"""A dense matrix as a format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warploom.formats.padded import PaddedFormat

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Dense"]


class Dense(PaddedFormat):
    """A dense matrix: a place for every entry that there could be.

    ``data`` has the rows, each filled up to a multiple of 16 bytes. Places without an entry hold 0, and a product on a
    GPU multiplies them: a NaN or infinity of B reaches all rows of C. ``occupied`` has a bit for each place, which says
    whether it holds an entry.

    `to_csr` leaves the other places out and keeps stored zeros. It gives the entries of a row in the order of their
    columns, with repeated ones added; `nnz` counts those as one.

    Examples
    --------
    >>> import scipy.sparse
    >>> from warploom.formats import Dense
    >>> stored = Dense.from_csr(scipy.sparse.csr_array([[1.0, 0, 2], [0, 3, 0]]))
    >>> stored.data.tolist(), stored.occupied.tolist()
    ([[1.0, 0.0, 2.0, 0.0], [0.0, 3.0, 0.0, 0.0]], [[5], [2]])
    """

    name = "dense"

    __slots__ = ()

    @classmethod
    def from_csr(cls, A: Any) -> Self:
        """Store a matrix in this format.

        Parameters
        ----------
        A : sparse matrix, shape (m, n)
            Values are float16, bfloat16, float32 or float64; integers and booleans become float64.

        Returns
        -------
        Dense
            The matrix in this format.

        Raises
        ------
        ParameterError
            The matrix would take more than 8 GiB.
        DtypeError
            The values have another type.
        InvalidMatrixError
            The arrays do not form a matrix.
        """
        return cls._store(A)

    @property
    def leading_dimension(self) -> int:
        """Places of a row."""
        return int(self._core.scalar("leading_dimension"))

    @property
    def data(self) -> NDArray[Any]:
        """Places of the matrix; shape (rows, `leading_dimension`)."""
        return self._core.array("data").reshape(self.shape[0], self.leading_dimension)

    @property
    def occupied(self) -> NDArray[np.uint32]:
        """Bit j of word i of a row: whether column 32 i + j holds an entry."""
        return self._core.array("occupied").reshape(self.shape[0], -(-self.shape[1] // 32))
