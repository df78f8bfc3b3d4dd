"""What all formats have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from warploom import _core
from warploom._matrix import as_csr

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["EntryFormat", "Format"]


class Format(ABC):
    """A matrix stored in one format; what all formats have in common."""

    #: Name of the format in the names of candidates.
    name: ClassVar[str]

    __slots__ = ("_core",)

    def __init__(self, core: _core.StoredMatrix) -> None:
        self._core = core

    @classmethod
    @abstractmethod
    def from_csr(cls, A: Any) -> Self:
        """Store a matrix in this format."""

    @classmethod
    def _store(cls, A: Any, **options: Any) -> Self:
        """Store a matrix with the options that the registry of the core has for the format."""
        return cls(_core.store(cls.name, as_csr(A), options))

    def to_csr(self) -> scipy.sparse.csr_array:
        """Return the matrix as a SciPy CSR array with memory of its own."""
        return scipy.sparse.csr_array(self._core.to_csr(), shape=self.shape)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return self._core.shape

    @property
    def num_rows(self) -> int:
        """Rows of the matrix, empty ones included."""
        return self.shape[0]

    @property
    def num_cols(self) -> int:
        """Columns of the matrix."""
        return self.shape[1]

    @property
    def nnz(self) -> int:
        """Stored entries of the matrix, without any padding that the format adds."""
        return self._core.nnz

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values: float16, float32 or float64."""
        return self._core.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays of the format on the host."""
        return self._core.nbytes

    @property
    def padding_ratio(self) -> float:
        """Stored places that hold no entry of the matrix, for each entry that they hold.

        That is (places - nnz) / nnz, and 0 for a matrix without nonzeros. 0 means that nothing is padded, 1
        that half of the places are.
        """
        return (self._core.places - self.nnz) / self.nnz if self.nnz else 0.0

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that are stored, by their names.

        Returns
        -------
        dict of str to numpy.ndarray
            Read-only views, in the order and shape in which they lie in memory. `nbytes` is what they take together.
        """
        return self._core.arrays()

    def __repr__(self) -> str:
        rows, cols = self.shape
        return f"<{type(self).__name__} {rows}x{cols} {self.dtype}, {self.nnz} nonzeros, {self.nbytes} bytes>"


class EntryFormat(Format):
    """What the formats without padding share that hold the entries of the matrix row after row."""

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
        CSR, DCSR or COO
            The class it is called on.

        Raises
        ------
        DtypeError
            The values have another type.
        InvalidMatrixError
            The arrays do not form a matrix.
        """
        return cls._store(A)

    @property
    def indices(self) -> NDArray[np.int32]:
        """Column of each entry."""
        return self._core.array("indices")

    @property
    def data(self) -> NDArray[Any]:
        """Value of each entry."""
        return self._core.array("data")
