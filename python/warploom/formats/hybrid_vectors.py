"""Column vectors for windows that fill them, and CSR for the other rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warploom.formats.column_vectors import ColumnVectors
from warploom.formats.csr import CSR
from warploom.formats.padded import PaddedFormat

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["HybridVectors"]


class HybridVectors(PaddedFormat):
    """Column vectors for the windows of eight rows that fill them, and CSR for all other rows.

    A window is stored as vectors if they hold at least ``nonzeros_per_vector`` nonzeros each, on average. One whose
    rows repeat a column never is, so that no entries are added up.

    `to_csr` gives the entries of a row that is stored as vectors in the order of their columns, and those of other rows
    in their stored order.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse
    >>> from warploom.formats import HybridVectors
    >>> A = scipy.sparse.block_diag([scipy.sparse.eye_array(8), np.ones((8, 2))], format="csr")
    >>> stored = HybridVectors.from_csr(A)
    >>> stored.vector_rows.tolist(), stored.vectors.indices.tolist()
    ([8, 9, 10, 11, 12, 13, 14, 15], [8, 9])
    >>> stored.other_rows.tolist(), stored.others.indices.tolist()
    ([0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6, 7])
    """

    name = "hybrid-vectors"

    __slots__ = ()

    @classmethod
    def from_csr(cls, A: Any, nonzeros_per_vector: int = 2) -> Self:
        """Store a matrix in this format.

        Parameters
        ----------
        A : sparse matrix, shape (m, n)
            Values are float16, bfloat16, float32 or float64; integers and booleans become float64.
        nonzeros_per_vector : int
            What the vectors of a window hold at least, on average, if it is stored as vectors: 1 to 8.

        Returns
        -------
        HybridVectors
            The matrix in this format.

        Raises
        ------
        ParameterError
            `nonzeros_per_vector` is not 1 to 8.
        DtypeError
            The values have another type.
        InvalidMatrixError
            The arrays do not form a matrix.
        """
        return cls._store(A, nonzeros_per_vector=nonzeros_per_vector)

    @property
    def nonzeros_per_vector(self) -> int:
        """What the vectors of a window hold at least, on average."""
        return int(self._core.scalar("nonzeros_per_vector"))

    @property
    def vector_rows(self) -> NDArray[np.int32]:
        """Row of the matrix that each row of `vectors` is: whole windows."""
        return self._core.array("vector_rows")

    @property
    def vectors(self) -> ColumnVectors:
        """The windows that are stored as vectors, one after the other."""
        return ColumnVectors(self._core.part("vectors"))

    @property
    def other_rows(self) -> NDArray[np.int32]:
        """Row of the matrix that each row of `others` is."""
        return self._core.array("other_rows")

    @property
    def others(self) -> CSR:
        """The other rows."""
        return CSR(self._core.part("others"))
