"""Block compressed sparse row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warploom.formats.padded import PaddedFormat

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["BSR"]


class BSR(PaddedFormat):
    """Block compressed sparse row: square dense blocks wherever a block has an entry of the matrix.

    Row i of blocks has the blocks ``indptr[i]`` to ``indptr[i + 1]`` (exclusive); ``indices`` has their columns,
    counted in blocks and ascending, and ``data`` their places. Rows and columns past the end of the matrix are
    padding, and so are the places of a block without an entry: they hold 0, and a product multiplies them as
    SciPy's BSR does, so that a NaN or infinity of x reaches all rows of the blocks in its column.

    `to_csr` leaves the padding out and keeps stored zeros. It gives the entries of a row in the order of their
    columns, with repeated ones added; `nnz` counts those as one.

    Examples
    --------
    >>> import scipy.sparse
    >>> from warploom.formats import BSR
    >>> A = scipy.sparse.csr_array([[1.0, 0, 0, 2], [0, 3, 0, 0]])
    >>> stored = BSR.from_csr(A, block_size=2)
    >>> stored.indices.tolist(), stored.data.tolist()
    ([0, 1], [[[1.0, 0.0], [0.0, 3.0]], [[0.0, 2.0], [0.0, 0.0]]])
    """

    name = "bsr"

    __slots__ = ()

    @classmethod
    def from_csr(cls, A: Any, block_size: int = 4) -> Self:
        """Store a matrix in this format.

        Parameters
        ----------
        A : sparse matrix, shape (m, n)
            Values are float16, float32 or float64; integers and booleans become float64.
        block_size : {2, 4, 8}
            Rows and columns of a block.

        Returns
        -------
        BSR
            The matrix in this format.

        Raises
        ------
        ParameterError
            `block_size` has another value.
        DtypeError
            The values have another type.
        InvalidMatrixError
            The arrays do not form a matrix.
        """
        return cls._store(A, block_size=block_size)

    @property
    def block_size(self) -> int:
        """Rows and columns of a block."""
        return int(self._core.scalar("block_size"))

    @property
    def indptr(self) -> NDArray[np.int64]:
        """Where each row of blocks starts in `indices` and `data`, and where the last ends."""
        return self._core.array("indptr")

    @property
    def indices(self) -> NDArray[np.int32]:
        """Column of each block, counted in blocks."""
        return self._core.array("indices")

    @property
    def data(self) -> NDArray[Any]:
        """Places of the blocks; shape (blocks, block_size, block_size)."""
        size = self.block_size
        return self._core.array("data").reshape(-1, size, size)
