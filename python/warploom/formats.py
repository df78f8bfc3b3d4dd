"""Storage formats of a sparse matrix.

Every format is a class with the same face: `from_csr` builds it from any sparse matrix, `to_csr` gives a
SciPy matrix back, and both keep the value type, the order of the nonzeros within their row, repeated entries
and stored zeros. Its arrays are read-only views of the memory that the kernels read.
"""

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

__all__ = ["CSR", "DCSR", "Format", "names"]


class Format(ABC):
    """A matrix stored in one format; what all formats have in common."""

    #: Name of the format in the names of candidates.
    name: ClassVar[str]

    __slots__ = ("_core",)

    def __init__(self, core: Any) -> None:
        self._core = core

    @classmethod
    @abstractmethod
    def from_csr(cls, A: Any) -> Self:
        """Store a matrix in this format."""

    def to_csr(self) -> scipy.sparse.csr_array:
        """Return the matrix as a SciPy CSR array with memory of its own."""
        return scipy.sparse.csr_array(self._core.to_csr(), shape=self.shape)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        shape: tuple[int, int] = self._core.shape
        return shape

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
        return int(self._core.nnz)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values, float32 or float64."""
        dtype: np.dtype[Any] = self._core.dtype
        return dtype

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays of the format on the host."""
        return int(self._core.nbytes)

    @property
    def padding_ratio(self) -> float:
        """Stored places that hold no entry of the matrix, for each entry that they hold.

        That is (places - nnz) / nnz, and 0 for a matrix without nonzeros. 0 means that nothing is padded, 1
        that half of the places are.
        """
        return 0.0

    def __repr__(self) -> str:
        rows, cols = self.shape
        return f"<{type(self).__name__} {rows}x{cols} {self.dtype}, {self.nnz} nonzeros, {self.nbytes} bytes>"


class _CompressedRows(Format):
    """What CSR and DCSR share: entries row after row."""

    #: The class of the core that holds the arrays.
    _storage: ClassVar[Any]

    __slots__ = ()

    @classmethod
    def from_csr(cls, A: Any) -> Self:
        """Store a matrix in this format.

        Parameters
        ----------
        A : sparse matrix, shape (m, n)
            Values are float32 or float64; integers and booleans become float64.

        Returns
        -------
        CSR or DCSR
            The class it is called on.

        Raises
        ------
        DtypeError
            The values have another type.
        InvalidMatrixError
            The arrays do not form a matrix.
        """
        return cls(cls._storage.from_csr(as_csr(A)))

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


class CSR(_CompressedRows):
    """Compressed sparse row: the arrays SciPy has, in memory of their own.

    Row i has the entries ``indptr[i]`` to ``indptr[i + 1]`` (exclusive) of ``indices`` and ``data``.
    """

    name = "csr"
    _storage = _core.CsrMatrix

    __slots__ = ()

    @property
    def indptr(self) -> NDArray[np.int64]:
        """Where each row starts in `indices` and `data`, and where the last ends: m + 1 offsets."""
        indptr: NDArray[np.int64] = self._core.indptr
        return indptr


class DCSR(_CompressedRows):
    """Doubly compressed sparse row: CSR that leaves out the rows without entries.

    Row ``row_ids[p]`` has the entries ``indptr[p]`` to ``indptr[p + 1]`` (exclusive) of ``indices`` and
    ``data``. Nothing is padded. The format is from Buluc and Gilbert (2008). Mehrabi et al. (2021), Fig. 1,
    call ``row_ids`` rowptr, ``indptr`` rowidx, ``indices`` colidx and ``data`` value.

    Examples
    --------
    >>> import scipy.sparse
    >>> from warploom.formats import DCSR
    >>> A = scipy.sparse.csr_array([[0.0, 1, 0, 2], [0, 0, 0, 0], [0, 0, 0, 0], [3, 0, 0, 0]])
    >>> stored = DCSR.from_csr(A)
    >>> stored.row_ids.tolist(), stored.indptr.tolist(), stored.indices.tolist()
    ([0, 3], [0, 2, 3], [1, 3, 0])
    """

    name = "dcsr"
    _storage = _core.DcsrMatrix

    __slots__ = ()

    @property
    def row_ids(self) -> NDArray[np.int32]:
        """Rows that have entries, ascending."""
        row_ids: NDArray[np.int32] = self._core.row_ids
        return row_ids

    @property
    def indptr(self) -> NDArray[np.int64]:
        """Where each row of `row_ids` starts in `indices` and `data`, and where the last ends."""
        indptr: NDArray[np.int64] = self._core.indptr
        return indptr


_FORMATS: tuple[type[Format], ...] = (CSR, DCSR)


def names() -> tuple[str, ...]:
    """Return the names of the formats, as they appear in the names of candidates."""
    return tuple(known.name for known in _FORMATS)
