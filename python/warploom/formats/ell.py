"""ELLPACK: every row padded to the longest one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warploom.formats.padded import PaddedFormat

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ELL"]


class ELL(PaddedFormat):
    """ELLPACK-ITPACK: two m x k arrays, where k is the length of the longest row.

    Row i of ``indices`` and ``data`` has the columns and values of the entries of row i in their order, then
    columns of -1 and values of 0 as padding. The arrays are stored column by column, as Bell and Garland (2009)
    have it. Koza et al. (2014), Sec. 2.3, call them ColInd and Val.

    Examples
    --------
    >>> import scipy.sparse
    >>> from warploom.formats import ELL
    >>> stored = ELL.from_csr(scipy.sparse.csr_array([[1.0, 0, 2], [0, 3, 0]]))
    >>> stored.indices.tolist(), stored.data.tolist()
    ([[0, 2], [1, -1]], [[1.0, 2.0], [3.0, 0.0]])
    """

    name = "ell"

    __slots__ = ()

    @classmethod
    def from_csr(cls, A: Any, max_width: int | None = None) -> Self:
        """Store a matrix in this format.

        Parameters
        ----------
        A : sparse matrix, shape (m, n)
            Values are float16, float32 or float64; integers and booleans become float64.
        max_width : int, optional
            Maximum length of a row. By default any width that stores at most four places for each nonzero,
            and 4,096 more.

        Returns
        -------
        ELL
            The matrix in this format.

        Raises
        ------
        ParameterError
            A row is longer than `max_width`, or by default there would be too much padding.
        DtypeError
            The values have another type.
        InvalidMatrixError
            The arrays do not form a matrix.
        """
        return cls._store(A, max_width=max_width)

    @property
    def width(self) -> int:
        """Entries of the longest row."""
        return int(self._core.scalar("width"))

    @property
    def indices(self) -> NDArray[np.int32]:
        """Column of each place, -1 where it holds no entry; shape (m, width), in Fortran order."""
        return self._core.array("indices").reshape(self.num_rows, self.width, order="F")

    @property
    def data(self) -> NDArray[Any]:
        """Value of each place, 0 where it holds no entry; shape (m, width), in Fortran order."""
        return self._core.array("data").reshape(self.num_rows, self.width, order="F")
