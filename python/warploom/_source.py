"""The matrix behind a plan: what its transpose, other products and files are made from."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np
import scipy.sparse

from warploom import _bfloat16
from warploom._csr import CSR, framework_of
from warploom._device_matrix import device_arrays
from warploom._matrix import as_csr

__all__ = ["Arrays", "Positions", "Source", "to_host", "transpose"]


@dataclasses.dataclass(frozen=True)
class Arrays:
    """The arrays of a CSR matrix where they are: all of NumPy, PyTorch or CuPy. Those on a GPU are not checked."""

    indptr: Any
    indices: Any
    data: Any
    shape: tuple[int, int]

    def matrix(self) -> CSR:
        """Return them as a matrix."""
        return CSR(self.indptr, self.indices, self.data, self.shape)

    def on_host(self) -> Arrays:
        """Return the same in host memory, copied if necessary."""
        return Arrays(to_host(self.indptr), to_host(self.indices), to_host(self.data), self.shape)


@dataclasses.dataclass(frozen=True)
class Source:
    """A caller's matrix, which is referred to and not copied: its values may have changed since a plan was made."""

    matrix: Any
    dtype: np.dtype[Any]
    """Value type of the plans."""
    nnz: int
    """Entries it had when it was planned for."""

    def arrays(self) -> Arrays:
        """Return the matrix as it is now, validated if it is in host memory.

        Raises
        ------
        InvalidMatrixError, ShapeError, DtypeError, IndexOverflowError
            If it is malformed by now.
        """
        found = device_arrays(self.matrix)
        values = None if found is None else found.values_as(self.dtype)
        if found is None or values is None:
            view = as_csr(self.matrix, dtype=self.dtype)
            return Arrays(view.indptr, view.indices, view.data, view.shape)
        indptr, indices = found.owner[:2] if len(found.owner) == 3 else found.owner[0][:2]
        return Arrays(indptr, indices[: self.nnz], values.owner[: self.nnz], found.shape)


class Positions:
    """Which entry of an array goes to each place, to be applied to arrays of any library on any device."""

    def __init__(self, positions: Any) -> None:
        self._known = {_home(positions): positions}

    def take(self, data: Any) -> Any:
        """Return a new array with the entries of `data` at their places."""
        home = _home(data)
        if home not in self._known:
            self._known[home] = _moved(next(iter(self._known.values())), data)
        positions = self._known[home]
        return data.index_select(0, positions) if home[0] == "torch" else data.take(positions)


def _home(array: Any) -> tuple[str, Any]:
    framework = framework_of(array)
    if framework == "torch":
        return "torch", array.device
    return ("cupy", int(array.device.id)) if framework == "cupy" else ("numpy", None)


def to_host(array: Any) -> Any:
    """Return an array of NumPy, which is a view of host memory."""
    framework = framework_of(array)
    if framework == "torch":
        return _bfloat16.of_tensor(array.detach().cpu())
    return array.get() if framework == "cupy" else array


def _moved(array: Any, like: Any) -> Any:
    framework = framework_of(like)
    if framework == "torch":
        return _bfloat16.to_tensor(to_host(array)).to(like.device)
    if framework == "cupy":
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(int(like.device.id)):
            return cupy.asarray(to_host(array))
    return to_host(array)


def transpose(given: Arrays, *, for_updates: bool) -> tuple[Arrays, Positions | None]:
    """Transpose a matrix where it is.

    Parameters
    ----------
    given : Arrays
    for_updates : bool
        Whether it will get other values: where they come from is returned, too.

    Returns
    -------
    Arrays
        The transpose in CSR; entries of a row are in the order of the rows of `given`, and repeated ones stay apart.
    Positions or None
        Where its values come from.
    """
    m, n = given.shape
    framework = framework_of(given.data)
    if framework is None:
        index = np.int32 if len(given.indices) < 2**31 else np.int64
        pattern = (given.indices.astype(index, copy=False), given.indptr.astype(index, copy=False))
        if not for_updates and given.data.dtype.itemsize != 2:  # with which SciPy does not compute
            columns = scipy.sparse.csr_array((given.data, *pattern), shape=(m, n)).tocsc()
            return Arrays(columns.indptr, columns.indices, columns.data, (n, m)), None
        order = np.arange(len(given.indices), dtype=index)
        columns = scipy.sparse.csr_array((order, *pattern), shape=(m, n)).tocsc()
        positions = Positions(columns.data)
        return Arrays(columns.indptr, columns.indices, positions.take(given.data), (n, m)), positions
    library = sys.modules[framework]
    if framework == "torch":
        order = library.argsort(given.indices, stable=True)
        starts = library.arange(n + 1, device=order.device, dtype=given.indices.dtype)
        indptr = library.searchsorted(given.indices[order], starts)
        rows = library.searchsorted(given.indptr.to(order.dtype), order, right=True) - 1
        arrays = (indptr, rows.to(library.int32))
    else:
        with library.cuda.Device(int(given.indices.device.id)):
            order = library.argsort(given.indices)  # which is stable
            starts = library.arange(n + 1, dtype=given.indices.dtype)
            indptr = library.searchsorted(given.indices[order], starts)
            rows = library.searchsorted(given.indptr.astype(order.dtype), order, side="right") - 1
            arrays = (indptr, rows.astype(library.int32))
    positions = Positions(order)
    return Arrays(*arrays, positions.take(given.data), (n, m)), positions if for_updates else None
