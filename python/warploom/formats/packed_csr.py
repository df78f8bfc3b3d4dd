"""CSR packed into warps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warploom.formats.padded import PaddedFormat, PlaceArrays

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["PackedCSR"]

_HEAD, _CUT = 1 << 31, 1 << 30
_TARGET = _CUT - 1
_FILLER = _HEAD | _TARGET


class PackedCSR(PaddedFormat, PlaceArrays):
    """CSR packed into warps: where a warp finds its entries needs no load, whatever the row lengths are.

    A lane holds `entries_per_lane` consecutive entries of one row, in the places ``i * entries_per_lane`` to
    ``(i + 1) * entries_per_lane`` (exclusive) of ``indices`` and ``data`` for lane i; a row takes as many
    neighbouring lanes as it needs. A warp has 32 lanes in each of its `steps`. Rows longer than a warp come first,
    cut into pieces that begin a warp each. The other rows follow in their order, each within one warp; some of them
    lie where the long rows left lanes free. Each 4,096 rows of the matrix begin a warp, so that a GPU can find all
    places in parallel. ``lanes`` says what each lane adds to.

    Examples
    --------
    >>> import scipy.sparse
    >>> from warploom.formats import PackedCSR
    >>> A = scipy.sparse.csr_array([[1.0, 0, 2], [0, 0, 0], [0, 3, 0]])
    >>> stored = PackedCSR.from_csr(A, entries_per_lane=1)
    >>> stored.rows[:4].tolist(), stored.heads[:4].tolist(), stored.indices[:4].tolist()
    ([0, 0, 2, -1], [True, False, True, False], [0, 2, 1, -1])
    >>> stored.empty_rows.tolist()
    [1]
    """

    name = "packed-csr"

    __slots__ = ()

    @classmethod
    def from_csr(cls, A: Any, *, entries_per_lane: int = 4, steps: int = 1) -> Self:
        """Store a matrix in this format.

        Parameters
        ----------
        A : sparse matrix, shape (m, n)
            Values are float16, float32 or float64; integers and booleans become float64.
        entries_per_lane : {1, 2, 4}
            Consecutive entries of a row in one lane.
        steps : {1, 2, 4}
            A warp has 32 lanes times as many.

        Returns
        -------
        PackedCSR
            The matrix in this format.

        Raises
        ------
        ParameterError
            A parameter has another value.
        DtypeError
            The values have another type.
        InvalidMatrixError
            The arrays do not form a matrix.
        IndexOverflowError
            The matrix has 2^30 - 1 rows or more.
        """
        return cls._store(A, entries_per_lane=entries_per_lane, steps=steps)

    @property
    def entries_per_lane(self) -> int:
        """Consecutive entries of a row in one lane."""
        return int(self._core.scalar("entries_per_lane"))

    @property
    def steps(self) -> int:
        """Lanes of a warp, divided by 32."""
        return int(self._core.scalar("steps"))

    @property
    def lanes(self) -> NDArray[np.uint32]:
        """What each lane adds to, as it is stored.

        The lowest 30 bits are a row, or the number of a piece if bit 30 is set. Bit 31 marks the first lane of a
        row or piece. A lane without entries has bit 31 and the lowest 30 bits set. See `rows` and `heads`.
        """
        return self._core.array("lanes")

    @property
    def rows(self) -> NDArray[np.int32]:
        """Row of each lane, -1 where it holds no entry. Made from `lanes`."""
        rows = (self.lanes & _TARGET).astype(np.int32)
        cut = (self.lanes & _CUT) != 0
        rows[cut] = self.pieces[rows[cut], 0]
        rows[self.lanes == _FILLER] = -1
        return rows

    @property
    def heads(self) -> NDArray[np.bool_]:
        """Whether each lane is the first of a row, or of a piece of one. Made from `lanes`."""
        heads: NDArray[np.bool_] = ((self.lanes & _HEAD) != 0) & (self.lanes != _FILLER)
        return heads

    @property
    def pieces(self) -> NDArray[np.int32]:
        """Row of each piece of a cut row, first partial sum of the row, its number of blocks, and place; shape (p, 4).

        A block has eight warps. A row of several blocks has a partial sum for each. The place is 256 times the
        number of the block among those of the row, plus 16 times the row's first warp in the block, plus 1 in the
        last piece of the row in the block.
        """
        return self._core.array("pieces")

    @property
    def empty_rows(self) -> NDArray[np.int32]:
        """Rows without entries, ascending."""
        return self._core.array("empty_rows")
