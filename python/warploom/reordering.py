"""Problems with rows and columns in another order, in which products are faster.

An iterative method that multiplies by the same matrix again and again can work in the new order throughout: its vectors
enter it once and leave it once.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from warploom import _core, permutations
from warploom.errors import ParameterError, ShapeError

__all__ = ["Reordered", "reorder", "sectors_per_nonzero"]

_WORTH = 0.95  # an order is chosen by itself only if it leaves at most this share of the sectors
_WINDOW_ROWS, _WINDOWS, _SECTOR = 1024, 64, 4


@dataclasses.dataclass(frozen=True, eq=False)
class Reordered:
    """A matrix in another order, and the ways into that order and out of it.

    ``r.leave(r.A @ r.enter(x))`` is ``A @ x``, up to rounding.
    """

    A: Any
    """The permuted matrix in CSR: a `scipy.sparse.csr_matrix` if the given one was a matrix of `scipy.sparse`, else a
    `scipy.sparse.csr_array`. The column indices of a row ascend."""

    perm: npt.NDArray[np.int32]
    """Row `new` of the permuted matrix is row ``perm[new]`` of the given one."""

    order: str
    """Name of the row permutation."""

    symmetric: bool
    """Whether the columns were permuted as the rows were."""

    _moved: dict[tuple[bool, str, str], Any] = dataclasses.field(default_factory=dict, repr=False)

    def enter(self, x: Any) -> Any:
        """Bring what `A` is multiplied by into the new order.

        Parameters
        ----------
        x : array of NumPy, CuPy or PyTorch, shape (n,) or (n, k)
            In the order of the columns of the given matrix.

        Returns
        -------
        array of the same library, on the same device
            ``x[perm]`` in memory of its own, row-major; `x` itself if only the rows were permuted.

        Raises
        ------
        ShapeError
            `x` does not have one row for each column of the matrix.
        """
        _check_rows("x", x, self.A.shape[1])
        return x[self._on_device_of(x, inverse=False)] if self.symmetric else x

    def leave(self, y: Any) -> Any:
        """Bring a result back into the order of the given matrix.

        Parameters
        ----------
        y : array of NumPy, CuPy or PyTorch, shape (m,) or (m, k)
            In the order of the rows of the permuted matrix.

        Returns
        -------
        array of the same library, on the same device
            The one whose ``[perm]`` is `y`, in memory of its own, row-major.

        Raises
        ------
        ShapeError
            `y` does not have one row for each row of the matrix.
        """
        _check_rows("y", y, self.A.shape[0])
        return y[self._on_device_of(y, inverse=True)]

    def _on_device_of(self, x: Any, inverse: bool) -> Any:
        """Return the permutation or its inverse where `x` is; the first time, it is copied there."""
        library = type(x).__module__.split(".")[0]
        key = (inverse, library, str(getattr(x, "device", "")))
        if key not in self._moved:
            index: Any = permutations.invert(self.perm) if inverse else self.perm
            if library == "cupy":
                with x.device:
                    index = sys.modules["cupy"].asarray(index)
            elif hasattr(x, "detach"):  # a PyTorch tensor or what derives from it
                index = sys.modules["torch"].as_tensor(index, dtype=sys.modules["torch"].int64, device=x.device)
            self._moved[key] = index
        return self._moved[key]


def reorder(A: Any, order: str = "auto", *, symmetric: bool = True, device: str | None = None) -> Reordered:
    """Bring the rows of a matrix, and its columns with them, into an order of better locality.

    Parameters
    ----------
    A : sparse matrix, shape (m, n)
        Whatever `warploom.plan` takes.
    order : str
        A row permutation of `warploom.permutations.names`; a symmetric one must be suitable
        (`warploom.permutations.is_symmetric`). ``"auto"`` computes those for locality and takes the one
        whose rows need the fewest distinct sectors of x per nonzero within windows of 1,024 rows (a sample of them), or
        ``"none"`` if none saves 5 %.
    symmetric : bool
        Permute the columns as the rows: P A P^T, of a square matrix. Otherwise only the rows.
    device : str, optional
        Where orders are computed, as in `warploom.permutations.compute`: ``"cuda"`` takes a twentieth or less of
        the time of a CPU of 16 cores for large matrices, and finds the same.

    Returns
    -------
    Reordered
        In host memory.

    Raises
    ------
    ShapeError
        A symmetric order of a matrix that is not square.
    ParameterError
        There is no permutation of that name, or it is not one for columns.
    InvalidMatrixError
        The arrays of `A` do not form a matrix.
    DeviceError
        There is no such GPU.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp, warploom as wl
    >>> A = sp.csr_array(np.array([[1.0, 0, 2], [0, 3, 0], [4, 0, 5]]))
    >>> r = wl.reorder(A, "rcm")
    >>> x = np.array([1.0, 2, 3])
    >>> r.leave(r.A @ r.enter(x)).tolist() == (A @ x).tolist()
    True
    """
    if order != "auto":
        permutations.family(order)
        if symmetric and not permutations.is_symmetric(order):
            suitable = ", ".join(name for name in permutations.names() if permutations.is_symmetric(name))
            raise ParameterError(
                f"the order '{order}' is one of rows only; symmetric ones are {suitable}", argument="order"
            )
    view, values = permutations._pattern_and_values(A)
    rows, columns = view.shape
    if symmetric and rows != columns:
        raise ShapeError(
            f"a symmetric order needs a square matrix, got {rows} x {columns}; pass symmetric=False to permute "
            "the rows alone",
            argument="A",
        )
    compute = permutations._computing(A, device, view)
    perm, name = _best(view, compute, symmetric) if order == "auto" else (compute(order), order)
    if symmetric:
        indptr, indices, source = _core.permute_symmetrically(view, perm)
        permuted = scipy.sparse.csr_array((values[source], indices, indptr), shape=view.shape)
    else:
        permuted = permutations.apply(
            scipy.sparse.csr_array((values, view.indices, view.indptr), shape=view.shape), perm
        )
    if isinstance(A, scipy.sparse.spmatrix):
        permuted = scipy.sparse.csr_matrix(permuted)
    return Reordered(permuted, perm, name, symmetric)


def _best(
    view: _core.CsrView, compute: Callable[[str], npt.NDArray[np.int32]], symmetric: bool
) -> tuple[npt.NDArray[np.int32], str]:
    """Return the order of those tried that leaves the fewest sectors, and its name."""
    best = np.arange(view.shape[0], dtype=np.int32)
    least, name = _WORTH * sectors_per_nonzero(view, best, symmetric=symmetric), "none"
    for tried in permutations.names():
        if permutations.family(tried) != "locality" or (symmetric and not permutations.is_symmetric(tried)):
            continue
        perm = compute(tried)
        found = sectors_per_nonzero(view, perm, symmetric=symmetric)
        if found < least:
            best, least, name = perm, found, tried
    return best, name


def sectors_per_nonzero(view: _core.CsrView, perm: npt.NDArray[np.int32], *, symmetric: bool) -> float:
    """Count the distinct sectors of x (4 columns) that windows of 1,024 rows in an order need, per nonzero.

    Parameters
    ----------
    view : _core.CsrView
        The matrix in its own order.
    perm : ndarray of int32
        ``perm[new] = old``.
    symmetric : bool
        Whether columns are permuted as rows.

    Returns
    -------
    float
        Of a sample of at most 64 windows; 0 without nonzeros.
    """
    number = permutations.invert(perm) if symmetric else None
    windows = -(-len(perm) // _WINDOW_ROWS)
    sectors = nonzeros = 0
    for window in np.unique(np.linspace(0, windows - 1, min(windows, _WINDOWS)).astype(np.int64)):
        rows = perm[window * _WINDOW_ROWS : (window + 1) * _WINDOW_ROWS]
        first, lengths = view.indptr[rows], view.indptr[rows + 1] - view.indptr[rows]
        starts = np.cumsum(lengths) - lengths
        columns = view.indices[np.repeat(first - starts, lengths) + np.arange(lengths.sum())]
        sectors += len(np.unique((columns if number is None else number[columns]) // _SECTOR))
        nonzeros += len(columns)
    return sectors / max(nonzeros, 1)


def _check_rows(name: str, x: Any, rows: int) -> None:
    if not 1 <= len(x.shape) <= 2 or x.shape[0] != rows:
        raise ShapeError(f"{name} must have the shape ({rows},) or ({rows}, k), got {tuple(x.shape)}", argument=name)
