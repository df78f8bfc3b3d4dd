"""Pictures of sparsity patterns: readable at any size, and quick at 10^7 rows."""

from __future__ import annotations

import base64
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warploom import _core
from warploom._matrix import as_csr
from warploom.errors import ParameterError

__all__ = ["Spy", "spy"]

_WARP = 32
_BAR_PIXELS = 48
_GAP_PIXELS = 6


class Spy:
    """A picture of where a matrix has nonzeros, and of how much work each warp gets.

    Made by `spy`. A notebook shows it; `save` writes a PNG file. Cells with nonzeros are blue, the darker the more.
    Beside them a bar for each row of cells shows the heaviest warp in it, if a warp takes 32 rows.
    """

    def __init__(
        self, counts: npt.NDArray[np.int64], warp_loads: npt.NDArray[np.int64], shape: tuple[int, int]
    ) -> None:
        self.counts = counts
        """Nonzeros in each cell."""
        self.warp_loads = warp_loads
        """Nonzeros of each 32 rows, in the order of the picture."""
        self.shape = shape
        """Shape (m, n) of the matrix."""

    @property
    def nnz(self) -> int:
        """Nonzeros of the matrix."""
        return int(self.warp_loads.sum())

    def pixels(self) -> npt.NDArray[np.uint8]:
        """Return the picture: numbers of colours from 0 (white) to 255 (the darkest)."""
        counts = self.counts
        height, width = max(counts.shape[0], 1), max(counts.shape[1], 1)
        cells = np.zeros((height, width), np.uint8)
        if counts.size:
            # A single nonzero in 10^10 places is seen, and dense parts differ from less dense ones.
            scale = np.log1p(counts) / np.log1p(max(int(counts.max()), 1))
            cells[:] = np.where(counts > 0, 70 + 185 * scale, 0).astype(np.uint8)
        bars = np.zeros((height, _GAP_PIXELS + _BAR_PIXELS), np.uint8)
        if self.warp_loads.size and counts.shape[0]:
            # The warps of a row of cells are those of its rows; few rows share one.
            first = np.arange(height) * self.shape[0] // height // _WARP
            after = ((np.arange(1, height + 1) * self.shape[0] // height - 1) // _WARP) + 1
            heaviest = np.array([self.warp_loads[a:b].max() for a, b in zip(first, after, strict=True)])
            lengths = np.ceil(_BAR_PIXELS * heaviest / max(int(self.warp_loads.max()), 1))
            bars[:, _GAP_PIXELS:] = np.where(np.arange(_BAR_PIXELS) < lengths[:, None], 150, 12)
        zoom = max(1, 256 // max(height, width))
        return np.hstack([np.kron(cells, np.ones((zoom, zoom), np.uint8)), np.repeat(bars, zoom, axis=0)])

    def _repr_png_(self) -> bytes:
        return _png(self.pixels())

    def _repr_html_(self) -> str:
        m, n = self.shape
        return f"{self.image()}<br>{m:,} x {n:,}, {self.nnz:,} nonzeros; right: the heaviest warp"

    def image(self) -> str:
        """Return the picture as an element of HTML."""
        return (
            f'<img alt="sparsity pattern" style="image-rendering:pixelated;border:1px solid #ccc" '
            f'src="data:image/png;base64,{base64.b64encode(self._repr_png_()).decode()}">'
        )

    def save(self, path: str | Path) -> None:
        """Write the picture as a PNG file.

        Parameters
        ----------
        path : str or Path
        """
        Path(path).write_bytes(self._repr_png_())

    def __repr__(self) -> str:
        cells = " x ".join(map(str, self.counts.shape))
        return f"<Spy of {self.shape[0]} x {self.shape[1]}, nnz={self.nnz}, in {cells} cells>"


def spy(A: Any, perm: Any = None, *, size: int = 400) -> Spy:
    """Draw where a matrix has nonzeros, and the load of its warps.

    Parameters
    ----------
    A : sparse matrix, shape (m, n)
        As for `warploom.plan`; values do not matter.
    perm : str or array of int, shape (m,), optional
        Order of the rows: the name of a row permutation, or ``perm[new] = old`` as `warploom.permutations.compute`
        returns it.
    size : int
        Cells along the longer side, at most; from 1 to 4096.

    Returns
    -------
    Spy

    Raises
    ------
    ParameterError
        `perm` is no permutation of the rows or an unknown name, or `size` is out of range.
    InvalidMatrixError, ShapeError, DtypeError
        If `A` is malformed.

    Examples
    --------
    >>> import warploom as wl
    >>> A = wl.examples.load("zipf_4096")
    >>> wl.spy(A)
    <Spy of 4096 x 4096, nnz=17985, in 400 x 400 cells>
    >>> wl.spy(A, perm="lpt").warp_loads[:3] > wl.spy(A).warp_loads[:3]
    array([ True,  True,  True])
    """
    if not isinstance(size, int) or not 1 <= size <= 4096:
        raise ParameterError(f"size must be an integer from 1 to 4096, got {size!r}", argument="size")
    view = as_csr(A, pattern_only=True)
    m, n = view.shape
    order = _order(perm, view)
    longest = max(m, n, 1)
    height, width = (min(extent, max(1, round(size * extent / longest))) for extent in (m, n))
    counts = _core.count_in_cells(view, order, height, width)
    lengths = np.diff(view.indptr)
    if order is not None:
        lengths = lengths[order]
    loads = np.add.reduceat(lengths, np.arange(0, m, _WARP)) if m else np.zeros(0, np.int64)
    return Spy(counts, loads, (m, n))


def _order(perm: Any, view: _core.CsrView) -> npt.NDArray[np.int32] | None:
    if perm is None:
        return None
    if isinstance(perm, str):
        from warploom import permutations

        return np.asarray(permutations.compute(perm, view), np.int32)
    order = np.asarray(perm)
    if order.ndim != 1 or order.dtype.kind not in "iu":
        raise ParameterError("perm must be the name of a row permutation or one integer for each row", argument="perm")
    if order.size and (order.min() < 0 or order.max() >= 2**31):
        raise ParameterError(f"perm has an entry outside [0, {view.shape[0]})", argument="perm")
    return np.ascontiguousarray(order, np.int32)


# White, and then from light to dark blue.
_PALETTE = np.linspace((225, 236, 247), (8, 48, 107), 256).astype(np.uint8)
_PALETTE[0] = 255


def _png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Encode numbers of colours as a PNG file."""
    height, width = pixels.shape

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = np.hstack([np.zeros((height, 1), np.uint8), pixels])  # of filter type 0
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            chunk(b"PLTE", _PALETTE.tobytes()),
            chunk(b"IDAT", zlib.compress(rows.tobytes(), 6)),
            chunk(b"IEND", b""),
        ]
    )
