"""CSR whose most frequent columns are numbered apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warploom.formats.padded import PaddedFormat

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["HubCSR"]

_MARK = 1 << 31


class HubCSR(PaddedFormat):
    """CSR with hubs: entries in the columns with the most entries say which of the hubs they are in.

    A product copies x at the hubs once into the shared memory of each thread block, where gathers cost less than
    from the L2 cache.

    A lane holds `entries_per_lane` consecutive entries of one row, in the places ``i * entries_per_lane`` to
    ``(i + 1) * entries_per_lane`` (exclusive) of ``indices`` and ``data`` for lane i; a row takes as many
    neighbouring lanes as it needs. Rows follow each other, those without entries apart, and the last is padded to
    a multiple of 128 places. An index is a column, or, with its highest bit set, the number of a hub; the number
    after the last hub marks a place without an entry. See `columns`.

    Examples
    --------
    >>> import scipy.sparse
    >>> from warploom.formats import HubCSR
    >>> A = scipy.sparse.csr_array([[1.0, 0, 2], [0, 0, 0], [0, 3, 4]])
    >>> stored = HubCSR.from_csr(A, hubs=1, entries_per_lane=2)
    >>> stored.hubs.tolist(), stored.empty_rows.tolist()
    ([2], [1])
    >>> stored.rows[:2].tolist(), stored.columns[:4].tolist(), stored.in_hubs[:4].tolist()
    ([0, 2], [0, 2, 1, 2], [False, True, False, True])
    """

    name = "hub-csr"

    __slots__ = ()

    @classmethod
    def from_csr(cls, A: Any, *, hubs: int = 24575, entries_per_lane: int = 4) -> Self:
        """Store a matrix in this format.

        Parameters
        ----------
        A : sparse matrix, shape (m, n)
            Values are float16, float32 or float64; integers and booleans become float64.
        hubs : int
            How many columns are hubs: those with the most entries, of several with equally many the first, and
            none with fewer than two. By default x at the hubs, and a zero, take 96 KB in float32.
        entries_per_lane : {1, 2, 4}
            Consecutive entries of a row in one lane.

        Returns
        -------
        HubCSR
            The matrix in this format.

        Raises
        ------
        ParameterError
            `entries_per_lane` has another value, or `hubs` is out of range.
        DtypeError
            The values have another type.
        InvalidMatrixError
            The arrays do not form a matrix.
        """
        return cls._store(A, hubs=hubs, entries_per_lane=entries_per_lane)

    @property
    def entries_per_lane(self) -> int:
        """Consecutive entries of a row in one lane."""
        return int(self._core.scalar("entries_per_lane"))

    @property
    def hubs(self) -> NDArray[np.int32]:
        """Columns that are hubs, ascending."""
        return self._core.array("hubs")

    @property
    def lanes(self) -> NDArray[np.uint32]:
        """Row of each lane, with bit 31 set in its first; see `rows` and `heads`."""
        return self._core.array("lanes")

    @property
    def rows(self) -> NDArray[np.int32]:
        """Row of each lane; the last goes on to the end. Made from `lanes`."""
        return (self.lanes & (_MARK - 1)).astype(np.int32)

    @property
    def heads(self) -> NDArray[np.bool_]:
        """Whether each lane is the first of its row. Made from `lanes`."""
        heads: NDArray[np.bool_] = (self.lanes & _MARK) != 0
        return heads

    @property
    def indices(self) -> NDArray[np.int32]:
        """What each place refers to, as it is stored: a column, or less than 0.

        The lowest 31 bits are then the number of a hub, or the number of hubs where there is no entry.
        """
        return self._core.array("indices")

    @property
    def in_hubs(self) -> NDArray[np.bool_]:
        """Whether each place holds an entry of a hub. Made from `indices`."""
        numbers = self.indices.view(np.uint32)
        found: NDArray[np.bool_] = (numbers >= _MARK) & (numbers < _MARK + len(self.hubs))
        return found

    @property
    def columns(self) -> NDArray[np.int32]:
        """Column of each place, -1 where it holds no entry. Made from `indices` and `hubs`."""
        columns = self.indices.copy()
        marked = columns < 0
        columns[marked] = np.append(self.hubs, np.int32(-1))[columns[marked] & (_MARK - 1)]
        return columns

    @property
    def data(self) -> NDArray[Any]:
        """Value of each place, 0 where it holds no entry."""
        return self._core.array("data")

    @property
    def empty_rows(self) -> NDArray[np.int32]:
        """Rows without entries, ascending."""
        return self._core.array("empty_rows")
