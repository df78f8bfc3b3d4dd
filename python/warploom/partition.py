"""How rows are distributed over threads: threads per row, and blocks of rows of similar length.

From Gao et al. (2024), "Revisiting thread configuration of SpMV kernels on GPU: A machine learning based approach",
Sections 2.1 and 4.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warploom import _core
from warploom._matrix import as_csr
from warploom.errors import ParameterError

__all__ = ["RowPartition", "partition_rows", "threads_per_row_mean", "threads_per_row_square_mean"]


def threads_per_row_mean(A: Any) -> int:
    """Return the number of threads that should share a row by the mean row length: formula (1), ``TpR_mean``.

    nnz / m, rounded up to a power of two, at most 32.

    Parameters
    ----------
    A : sparse matrix, shape (m, n)
        Anything `warploom` takes as a matrix; only its row lengths are read.

    Returns
    -------
    int
        1, 2, 4, 8, 16 or 32. 1 for at most one nonzero per row on average, without rows too.

    Notes
    -----
    Computed as printed. Table 1 of the paper has 4 for *hcircuit*, whose 513,072 / 105,676 = 4.86 nonzeros per row
    give 8 here: its columns are what the formulas give if nnz / m and the square root are rounded down and results
    below 2 are raised to 2.
    """
    return int(_core.threads_per_row_mean(as_csr(A, pattern_only=True)))


def threads_per_row_square_mean(A: Any) -> int:
    """Return the number of threads that should share a row by the root of its mean length: formula (2), ``TpR_SqMean``.

    The square root of nnz / m, rounded up to a power of two, at most 32.

    Parameters
    ----------
    A : sparse matrix, shape (m, n)
        Anything `warploom` takes as a matrix; only its row lengths are read.

    Returns
    -------
    int
        1, 2, 4, 8, 16 or 32. 1 for at most one nonzero per row on average, without rows too.

    Notes
    -----
    Computed as printed, see `threads_per_row_mean`.
    """
    return int(_core.threads_per_row_square_mean(as_csr(A, pattern_only=True)))


@dataclasses.dataclass(frozen=True, eq=False)
class RowPartition:
    """Consecutive rows in blocks, alternately of long and of short rows."""

    row_block: NDArray[np.int64]
    """First row of each block, and the number of rows (``rowBlk``)."""
    nnz_block: NDArray[np.int64]
    """Nonzeros of each block (``nnzBlk``)."""
    is_long: NDArray[np.bool_]
    """Whether the rows of a block are long (``isLong``)."""

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self.nnz_block)

    def thread_blocks(self, total: int) -> NDArray[np.int64]:
        """Distribute thread blocks over the blocks: equation (3).

        A block of long rows gets one for each row. Those that remain of `total` go to the others in proportion to
        their nonzeros, rounded down, and at least one to each.

        Parameters
        ----------
        total : int
            ``N_BLKS``, the number of thread blocks.

        Returns
        -------
        ndarray of int64
            One number for each block. Their sum may differ from `total`.

        Raises
        ------
        ParameterError
            `total` is not between 0 and 2^31 - 1.
        """
        if not 0 <= total < 2**31:
            raise ParameterError(f"total must be between 0 and 2^31 - 1, got {total}", argument="total")
        shares: NDArray[np.int64] = _core.share_thread_blocks(self.row_block, self.nnz_block, self.is_long, total)
        return shares


def partition_rows(A: Any, *, long_row: int = 512) -> RowPartition:
    """Put consecutive rows of similar length into blocks: Algorithm 1.

    Parameters
    ----------
    A : sparse matrix, shape (m, n)
        Anything `warploom` takes as a matrix; only its row lengths are read.
    long_row : int
        ``T_LONG``: a row is long from this number of nonzeros on.

    Returns
    -------
    RowPartition
        With any number of blocks; the bit mask of the paper holds 64. Without rows there are none.

    Raises
    ------
    ParameterError
        `long_row` is less than 1.

    Examples
    --------
    >>> import scipy.sparse
    >>> from warploom.partition import partition_rows
    >>> A = scipy.sparse.csr_array([[1.0, 0, 0], [1, 1, 1], [1, 1, 1], [0, 0, 0]])
    >>> blocks = partition_rows(A, long_row=3)
    >>> blocks.row_block.tolist(), blocks.nnz_block.tolist(), blocks.is_long.tolist()
    ([0, 1, 3, 4], [1, 6, 0], [False, True, False])
    """
    return RowPartition(*_core.partition_rows(as_csr(A, pattern_only=True), long_row))
