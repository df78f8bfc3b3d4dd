"""Compressed sparse row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from warploom.formats.base import EntryFormat

__all__ = ["CSR"]


class CSR(EntryFormat):
    """Compressed sparse row: the arrays SciPy has, in memory of their own.

    Row i has the entries ``indptr[i]`` to ``indptr[i + 1]`` (exclusive) of ``indices`` and ``data``.
    """

    name = "csr"

    __slots__ = ()

    @property
    def indptr(self) -> NDArray[np.int64]:
        """Where each row starts in `indices` and `data`, and where the last ends: m + 1 offsets."""
        return self._core.array("indptr")
