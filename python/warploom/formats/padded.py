"""What the formats that store places without an entry have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warploom.formats.base import Format

__all__ = ["PaddedFormat", "PlaceArrays", "SortedSlices"]


class PaddedFormat(Format):
    """A format some of whose stored places may hold no entry of the matrix."""

    __slots__ = ()

    @property
    def places(self) -> int:
        """Stored places, including those without an entry of the matrix."""
        return self._core.places


class PlaceArrays(Format):
    """A format with one array of columns and one of values, which mark the places that hold no entry."""

    __slots__ = ()

    @property
    def indices(self) -> NDArray[np.int32]:
        """Column of each place, -1 where it holds no entry."""
        return self._core.array("indices")

    @property
    def data(self) -> NDArray[Any]:
        """Value of each place, 0 where it holds no entry."""
        return self._core.array("data")


class SortedSlices(PaddedFormat):
    """A sliced format whose rows may be sorted by length, so that the rows of a slice are of similar length."""

    __slots__ = ()

    @property
    def sort_window(self) -> int:
        """Number of consecutive rows that were sorted by length."""
        return int(self._core.scalar("sort_window"))

    @property
    def row_ids(self) -> NDArray[np.int32]:
        """Row of the matrix that each stored row is; empty when the rows keep their order."""
        return self._core.array("row_ids")
