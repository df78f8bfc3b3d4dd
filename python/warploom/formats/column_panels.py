"""Panels of columns whose part of x fits into a GPU's shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warploom.formats.base import Format

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ColumnPanels"]


class ColumnPanels(Format):
    """Column panels: the entries of `panel_columns` neighbouring columns at a time, row after row.

    Panel p has the places ``panel_ptr[p]`` to ``panel_ptr[p + 1]`` (exclusive) of ``columns`` and ``data``; their
    number is a multiple of 256, and those at the end that hold no entry have the column ``panel_columns``.
    Columns count from the first of their panel and take 16 bits. A row is known by where it ends and by a mask
    of the rows that have entries in a panel, so that an entry costs hardly more than its column and its value.

    `to_csr` gives the entries of a row sorted by panel; within a panel they keep their order.

    Examples
    --------
    >>> import scipy.sparse
    >>> from warploom.formats import ColumnPanels
    >>> A = scipy.sparse.csr_array([[0.0, 1, 0, 2], [0, 0, 0, 0], [4, 5, 0, 0], [3, 0, 0, 0]])
    >>> stored = ColumnPanels.from_csr(A, panel_columns=2)
    >>> stored.panel_ptr.tolist(), stored.columns[:4].tolist(), stored.columns[256]
    ([0, 256, 512], [1, 0, 1, 0], np.uint16(1))
    >>> stored.row_masks.tolist()  # rows 0, 2 and 3 in panel 0; row 0 in panel 1
    [[13, 1]]
    """

    name = "column-panels"

    __slots__ = ()

    @classmethod
    def from_csr(cls, A: Any, *, panel_columns: int = 24576) -> Self:
        """Store a matrix in this format.

        Parameters
        ----------
        A : sparse matrix, shape (m, n)
            Values are float16, float32 or float64; integers and booleans become float64.
        panel_columns : int
            Columns of a panel, 1 to 65535. By default their part of x takes 192 KB in float64.

        Returns
        -------
        ColumnPanels
            The matrix in memory of its own.

        Raises
        ------
        DtypeError
            The values have another type.
        InvalidMatrixError
            The arrays do not form a matrix.
        ParameterError
            `panel_columns` is out of range.
        IndexOverflowError
            The matrix has 2^31 entries or more.
        """
        return cls._store(A, panel_columns=panel_columns)

    @property
    def panel_columns(self) -> int:
        """Columns of a panel; the last may have fewer."""
        return int(self._core.scalar("panel_columns"))

    @property
    def panel_ptr(self) -> NDArray[np.int64]:
        """Where each panel starts in `columns` and `data`, and where the last ends."""
        return self._core.array("panel_ptr")

    @property
    def columns(self) -> NDArray[np.uint16]:
        """Column within its panel of each place; `panel_columns` where there is no entry."""
        return self._core.array("columns")

    @property
    def data(self) -> NDArray[Any]:
        """Value of each place; 0 where there is no entry."""
        return self._core.array("data")

    @property
    def row_ends(self) -> NDArray[np.uint8]:
        """One bit for each place, lowest first: whether it is the last of its row in its panel."""
        return self._core.array("row_ends")

    @property
    def row_masks(self) -> NDArray[np.uint32]:
        """Which of rows 32 b to 32 b + 31 have entries in panel p, as bits of ``row_masks[b, p]``."""
        return self._by_row_block(self._core.array("row_masks"))

    @property
    def first_sums(self) -> NDArray[np.int32]:
        """For each entry of `row_masks`, how many pairs of a panel and a row in it come before.

        Pairs are those with entries, panel after panel and row after row.
        """
        return self._by_row_block(self._core.array("first_sums"))

    def _by_row_block(self, array: NDArray[Any]) -> NDArray[Any]:
        return array.reshape(-(-self.num_rows // 32), len(self.panel_ptr) - 1)
