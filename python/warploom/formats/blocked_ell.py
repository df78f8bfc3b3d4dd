"""Blocked ELL, the vendor's format of dense blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warploom.formats.padded import PaddedFormat

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["BlockedELL"]


class BlockedELL(PaddedFormat):
    """Blocked ELL: square dense blocks, and in every row of blocks as many as the longest has.

    ``indices`` has the columns of the blocks of each row of blocks, counted in blocks and ascending, then -1; ``data``
    is one dense array, in which the blocks of a row are side by side. Places without an entry hold 0, and a product
    multiplies them: a NaN or infinity of B reaches all rows of the blocks in its column.

    `to_csr` leaves the padding out and keeps stored zeros. It gives the entries of a row in the order of their
    columns, with repeated ones added; `nnz` counts those as one.

    Examples
    --------
    >>> import scipy.sparse
    >>> from warploom.formats import BlockedELL
    >>> stored = BlockedELL.from_csr(scipy.sparse.eye_array(20, format="csr"), block_size=8)
    >>> stored.indices.tolist(), stored.data.shape
    ([[0], [1], [2]], (24, 8))
    """

    name = "blocked-ell"

    __slots__ = ()

    @classmethod
    def from_csr(cls, A: Any, block_size: int = 16) -> Self:
        """Store a matrix in this format.

        Parameters
        ----------
        A : sparse matrix, shape (m, n)
            Values are float16, bfloat16, float32 or float64; integers and booleans become float64.
        block_size : {8, 16, 32}
            Rows and columns of a block.

        Returns
        -------
        BlockedELL
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
    def width(self) -> int:
        """Blocks of a row of blocks."""
        return int(self._core.scalar("width"))

    @property
    def indices(self) -> NDArray[np.int32]:
        """Column of each block, -1 for one without entries; shape (rows of blocks, width)."""
        return self._core.array("indices").reshape(-(-self.num_rows // self.block_size), self.width)

    @property
    def data(self) -> NDArray[Any]:
        """Places of the blocks; shape (rows of blocks times `block_size`, `width` times `block_size`)."""
        rows = -(-self.num_rows // self.block_size) * self.block_size
        return self._core.array("data").reshape(rows, self.width * self.block_size)
