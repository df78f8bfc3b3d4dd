"""What the formats that store places without an entry have in common."""

from __future__ import annotations

from warploom.formats.base import Format

__all__ = ["PaddedFormat"]


class PaddedFormat(Format):
    """A format some of whose stored places may hold no entry of the matrix."""

    __slots__ = ()

    @property
    def places(self) -> int:
        """Stored places, those without an entry of the matrix included."""
        return int(self._core.places)

    @property
    def padding_ratio(self) -> float:
        """Stored places that hold no entry of the matrix, for each entry that they hold."""
        return (self.places - self.nnz) / self.nnz if self.nnz else 0.0
