"""Hybrid of ELL and COO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warploom.formats.coo import COO
from warploom.formats.ell import ELL
from warploom.formats.padded import PaddedFormat

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["HYB"]


class HYB(PaddedFormat):
    """Hybrid: the first ``width`` entries of every row in ELL, the remaining ones of longer rows in COO.

    The format is from Bell and Garland (2009), and so is the width it has by default: the largest that
    max(m / 3, 4096) rows or more fill, where a matrix of fewer than 4,096 rows takes m / 3 alone.

    Examples
    --------
    >>> import scipy.sparse
    >>> from warploom.formats import HYB
    >>> stored = HYB.from_csr(scipy.sparse.csr_array([[1.0, 2, 3], [0, 4, 0]]), width=1)
    >>> stored.ell.indices.tolist(), stored.coo.row_indices.tolist(), stored.coo.indices.tolist()
    ([[0], [1]], [0, 0], [1, 2])
    """

    name = "hyb"

    __slots__ = ()

    @classmethod
    def from_csr(cls, A: Any, width: int = 0) -> Self:
        """Store a matrix in this format.

        Parameters
        ----------
        A : sparse matrix, shape (m, n)
            Values are float16, float32 or float64; integers and booleans become float64.
        width : int
            Entries of a row that ELL holds; no more than the longest row has. 0 takes the default.

        Returns
        -------
        HYB
            The matrix in this format.

        Raises
        ------
        ParameterError
            `width` is negative.
        DtypeError
            The values have another type.
        InvalidMatrixError
            The arrays do not form a matrix.
        """
        return cls._store(A, width=width)

    @property
    def width(self) -> int:
        """Entries of a row that ELL holds."""
        return self.ell.width

    @property
    def ell(self) -> ELL:
        """The first entries of every row."""
        return ELL(self._core.part("ell"))

    @property
    def coo(self) -> COO:
        """The entries of long rows that ELL does not hold."""
        return COO(self._core.part("coo"))
