"""DASP: rows grouped by length into blocks for tensor cores."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from warploom.formats.padded import PlaceArrays

__all__ = ["DASP", "DaspCategory"]


class DaspCategory(NamedTuple):
    """How much of a matrix one category of rows holds."""

    #: Rows of the category.
    rows: int
    #: Entries of these rows.
    nnz: int
    #: Slots stored for these rows that hold no entry.
    padding: int


class DASP(PlaceArrays):
    """Rows grouped by length and laid out as the blocks that tensor cores multiply (Lu and Liu 2023, Sec. 3.2).

    A block is `mma_m` x `mma_k` slots, row by row. `indices` and `data` hold five sections of slots, which start at
    `section_starts`:

    long
        Rows of more than `max_length` entries, each padded to whole groups of two blocks (``group_ptr``).
    regular
        Rows of 5 to `max_length` entries, sorted by decreasing length and taken `mma_m` at a time. Such a row block
        is cut into blocks of `mma_k` entries of each row, which are stored while more than `threshold` of their
        slots are filled (``block_ptr``).
    combined
        Four slots each: a row of one and a row of three entries (1&3), two rows of two (2&2), or one row of four;
        a row of three that found no partner is padded to four.
    single
        Rows of one entry that found no partner.
    irregular
        Entries of the rows of the regular section beyond its blocks (``irregular_ptr``).

    Padding has column -1. `row_ids` names the rows in this order (for a pair, both), then the empty rows; it is -1
    where an odd number of rows of two leaves a pair without its second row.

    The paper multiplies 8 x 4 blocks with the instruction m8n8k4. Its float16 form is slow on GPUs from compute
    capability 8.0 on; here four of these blocks are multiplied at a time with m16n8k16, whose lower eight rows stay
    empty, and sums are float32. Results come in the order of the caller's rows, not in that of `row_ids`.

    Examples
    --------
    >>> import scipy.sparse
    >>> from warploom.formats import DASP
    >>> A = scipy.sparse.csr_array([[1.0, 2, 3, 4, 5], [0, 6, 0, 7, 0], [0, 0, 0, 0, 0], [8, 0, 0, 0, 0]])
    >>> stored = DASP.from_csr(A, max_length=4)
    >>> stored.row_ids.tolist()
    [0, 1, -1, 3, 2]
    >>> stored.section_starts
    {'long': 0, 'regular': 64, 'combined': 64, 'single': 68, 'irregular': 69}
    >>> stored.categories["long"]
    DaspCategory(rows=1, nnz=5, padding=59)
    """

    name = "dasp"

    __slots__ = ()

    @classmethod
    def from_csr(
        cls, A: Any, *, mma_m: int = 8, mma_k: int = 4, max_length: int = 256, threshold: float = 0.75
    ) -> DASP:
        """Store a matrix in this format.

        Parameters
        ----------
        A : sparse matrix, shape (m, n)
            Values are float16, float32 or float64; integers and booleans become float64.
        mma_m, mma_k : int
            Rows and columns of a block, 1 to 1024. The GPU kernels read blocks of 8 x 4.
        max_length : int
            Entries of the longest medium row, 4 to 2**20.
        threshold : float
            A block of medium rows is stored when more than this share of its slots is filled, 0 to 1.

        Returns
        -------
        DASP

        Raises
        ------
        DtypeError
            The values have another type.
        InvalidMatrixError
            The arrays do not form a matrix.
        ParameterError
            A parameter is out of range.
        """
        return cls._store(A, mma_m=mma_m, mma_k=mma_k, max_length=max_length, threshold=threshold)

    @property
    def mma_m(self) -> int:
        """Rows of a block."""
        return int(self._core.scalar("mma_m"))

    @property
    def mma_k(self) -> int:
        """Columns of a block."""
        return int(self._core.scalar("mma_k"))

    @property
    def max_length(self) -> int:
        """Entries of the longest medium row."""
        return int(self._core.scalar("max_length"))

    @property
    def threshold(self) -> float:
        """Minimum share of its slots that a stored block of medium rows fills."""
        return float(self._core.scalar("threshold"))

    @property
    def row_ids(self) -> NDArray[np.int32]:
        """Rows of the matrix in the order in which they are stored, the empty ones last; -1 for a missing partner."""
        return self._core.array("row_ids")

    @property
    def group_ptr(self) -> NDArray[np.int64]:
        """First group (of two blocks) of each long row, and where the last ends."""
        return self._core.array("group_ptr")

    @property
    def block_ptr(self) -> NDArray[np.int64]:
        """First block of each row block of the regular section, and where the last ends."""
        return self._core.array("block_ptr")

    @property
    def irregular_ptr(self) -> NDArray[np.int64]:
        """First entry of each medium row in the irregular section, and where the last ends."""
        return self._core.array("irregular_ptr")

    @property
    def section_starts(self) -> dict[str, int]:
        """First slot of each section."""
        return {name: start for name, (start,) in self._core.counts("section_starts").items()}

    @property
    def categories(self) -> dict[str, DaspCategory]:
        """Rows, entries and padding of each category of rows (Fig. 12 of the paper).

        The names are long, medium, short_1_3, short_2_2, short_4, short_1 and empty.
        """
        return {name: DaspCategory(*sizes) for name, sizes in self._core.counts("categories").items()}
