"""Coordinates: row, column and value of every entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warploom import _core
from warploom._matrix import as_csr
from warploom.formats.base import Format

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["COO"]


class COO(Format):
    """Coordinates: ``row_indices[j]``, ``indices[j]`` and ``data[j]`` are row, column and value of entry j.

    Entries stand row after row, those of a row in the order the CSR matrix has. Nothing is padded. Koza et al.
    (2014), Sec. 2.3, call the arrays RowInd, ColInd and Val.

    Examples
    --------
    >>> import scipy.sparse
    >>> from warploom.formats import COO
    >>> stored = COO.from_csr(scipy.sparse.csr_array([[1.0, 0, 2], [0, 3, 0]]))
    >>> stored.row_indices.tolist(), stored.indices.tolist()
    ([0, 0, 1], [0, 2, 1])
    """

    name = "coo"

    __slots__ = ()

    @classmethod
    def from_csr(cls, A: Any) -> Self:
        """Store a matrix in this format.

        Parameters
        ----------
        A : sparse matrix, shape (m, n)
            Values are float16, float32 or float64; integers and booleans become float64.

        Returns
        -------
        COO
            The matrix in this format.

        Raises
        ------
        DtypeError
            The values have another type.
        InvalidMatrixError
            The arrays do not form a matrix.
        """
        return cls(_core.CooMatrix.from_csr(as_csr(A)))

    @property
    def row_indices(self) -> NDArray[np.int32]:
        """Row of each entry; never decreases."""
        row_indices: NDArray[np.int32] = self._core.row_indices
        return row_indices

    @property
    def indices(self) -> NDArray[np.int32]:
        """Column of each entry."""
        indices: NDArray[np.int32] = self._core.indices
        return indices

    @property
    def data(self) -> NDArray[Any]:
        """Value of each entry."""
        data: NDArray[Any] = self._core.data
        return data
