"""The boundary: any matrix of a caller becomes one validated CSR view.

Nothing here relies on a check that SciPy, PyTorch or CuPy may have made: the arrays of a matrix can be
assigned to after it was built. Index arrays are therefore read as they are, and no method of a caller's
matrix that computes with them is called before they are known to be sound. Wide integers are checked before
they are narrowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from warploom import _bfloat16, _core
from warploom._csr import CSR, views
from warploom.errors import DtypeError, IndexOverflowError, InvalidMatrixError, ShapeError

__all__ = ["as_csr", "compressed", "from_arrays"]

_MOST = np.iinfo(np.int32).max
_MOST_OFFSET = np.iinfo(np.int64).max
_Array = npt.NDArray[Any]


def as_csr(A: Any, *, dtype: npt.DTypeLike | None = None, pattern_only: bool = False) -> _core.CsrView:
    """Validate a sparse matrix and view it as CSR.

    Parameters
    ----------
    A : sparse matrix, shape (m, n)
        A `scipy.sparse` matrix or array (CSR is viewed in place, every other format is converted), a CSR
        tensor of PyTorch, a sparse matrix of CuPy or a `warploom.CSR` (downloaded if necessary). Column indices
        may be unsorted and may repeat, stored zeros are kept, and the arrays may be longer than necessary.
    dtype : {"float16", "bfloat16", "float32", "float64"}, optional
        Value type of the view; by default that of `A` if it is one of these, and float64 for booleans and
        integers.
    pattern_only : bool
        Leave the values out. Those of a CSR matrix may then be of any type.

    Returns
    -------
    _core.CsrView
        `indptr` int64 (m + 1), `indices` int32 and `data` float16, bfloat16, float32 or float64. The arrays of `A` are
        viewed, not copied, where they are contiguous and already of these types.

    Raises
    ------
    InvalidMatrixError
        `A` is not a sparse matrix or its arrays do not form one: ``argument`` names the array and
        ``position`` is the first bad position in it.
    ShapeError
        `A` does not have two dimensions.
    DtypeError
        The values are not real numbers of a supported type, the indices are not integers, or `dtype` is not
        supported.
    IndexOverflowError
        More than 2**31 - 1 rows or columns.
    """
    wanted = None if dtype is None else _wanted_dtype(dtype)
    if isinstance(A, _core.CsrView):
        return _recast(A, wanted, pattern_only)
    if scipy.sparse.issparse(A):
        indptr, indices, data, shape = _SCIPY_FORMATS[A.format](A)
        if wanted is None and getattr(A, "dtype", None) == np.float16:  # of whatever was assigned to A.data
            wanted = np.dtype(np.float16)  # once more: SciPy converts in float32
    elif isinstance(A, CSR):
        indptr, indices, data = views(A).on_host()
        shape = A.shape
    else:
        package = _package_of(A)
        if package == "torch":
            indptr, indices, data, shape = _from_torch(A)
            if wanted is None and (name := _bfloat16.name_of(A.dtype)) in ("float16", "bfloat16"):
                wanted = _bfloat16.as_dtype(name)  # once more: SciPy converts in float32
        elif package == "cupyx" and hasattr(A, "get"):
            if A.format != "csr":
                return as_csr(_cupy_to_scipy(A), dtype=wanted, pattern_only=pattern_only)
            indptr, indices, data, shape = A.indptr.get(), A.indices.get(), A.data.get(), A.shape
        else:
            raise InvalidMatrixError(
                f"A must be a sparse matrix, got {type(A).__module__}.{type(A).__qualname__}; "
                "a dense array becomes one with scipy.sparse.csr_array(A), and three arrays do with warploom.CSR",
                argument="A",
            )
    if not pattern_only:
        return compressed(indptr, indices, data, shape, dtype=wanted)
    view = compressed(indptr, indices, None, shape)
    _check_length(data, view.nnz)
    return view


def compressed(
    indptr: Any,
    indices: Any,
    data: Any,
    shape: tuple[int, ...],
    *,
    dtype: npt.DTypeLike | None = None,
) -> _core.CsrView:
    """Validate the three arrays of a CSR matrix.

    Parameters
    ----------
    indptr : array_like of integers, shape (m + 1,)
    indices : array_like of integers, shape (nnz,) or longer
    data : array_like of real numbers, shape (nnz,) or longer, or None
        None leaves the values out.
    shape : tuple of int
        (m, n).
    dtype : {"float16", "bfloat16", "float32", "float64"}, optional
        As in `as_csr`.

    Returns
    -------
    _core.CsrView

    Raises
    ------
    InvalidMatrixError, ShapeError, DtypeError, IndexOverflowError
        As in `as_csr`.
    """
    num_rows, num_cols = _two_sizes(shape)
    offsets, columns = _offsets(indptr), _integers(indices, "indices")
    values = None if data is None else _one_dimensional(data)
    last = int(offsets[-1]) if offsets.size else 0
    if last >= 0:  # else the core says what is wrong; what lies behind the last nonzero is never looked at
        columns, values = columns[:last], None if values is None else values[:last]
    return _core.CsrView(
        offsets,
        _indices(columns, "indices"),
        None if values is None else _values(values, None if dtype is None else np.dtype(dtype)),
        num_rows,
        num_cols,
    )


def from_arrays(format: str, arrays: Mapping[str, Any], shape: tuple[int, ...]) -> _core.CsrView:
    """Validate the arrays of a matrix in one of SciPy's array formats and view it as CSR.

    Parameters
    ----------
    format : {"csr", "csc", "coo", "bsr", "dia"}
        As SciPy calls it.
    arrays : mapping of str to array
        The arrays by the names SciPy gives them, such as ``indptr``, ``indices`` and ``data``.
    shape : tuple of int
        (m, n).

    Returns
    -------
    _core.CsrView

    Raises
    ------
    InvalidMatrixError, ShapeError, DtypeError, IndexOverflowError
        As in `as_csr`.
    """
    return compressed(*_SCIPY_FORMATS[format](SimpleNamespace(**arrays, shape=shape)))


# ----- what the arrays of any format have to be -----


def _wanted_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    try:
        wanted = _bfloat16.as_dtype(dtype)
    except TypeError as error:
        raise DtypeError(f"dtype must be {_SUPPORTED}, got {dtype!r}", argument="dtype") from error
    if not _is_supported(wanted):
        raise DtypeError(f"dtype must be {_SUPPORTED}, got {wanted}", argument="dtype")
    return wanted.newbyteorder("=")


_SUPPORTED = "float16, bfloat16, float32 or float64"


def _is_supported(dtype: np.dtype[Any]) -> bool:
    return dtype.newbyteorder("=") in (np.float16, np.float32, np.float64, _bfloat16.DTYPE)


def _two_sizes(shape: tuple[int, ...]) -> tuple[int, int]:
    if len(shape) != 2:
        raise ShapeError(f"A must have two dimensions, got shape {tuple(shape)}", argument="A")
    num_rows, num_cols = (int(size) for size in shape)
    for size, what in ((num_rows, "rows"), (num_cols, "columns")):
        if size > _MOST:
            raise IndexOverflowError(
                f"{size} {what} are beyond the 32-bit row and column index type (at most {_MOST})",
                argument="shape",
            )
    return num_rows, num_cols


def _array(values: Any, argument: str) -> _Array:
    """Make a plain NumPy array of what was given, or raise an error that names it."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise InvalidMatrixError(f"{argument} is not an array: {error}", argument=argument) from error


def _tidy(array: _Array, dtype: npt.DTypeLike) -> _Array:
    """Return `array` as `dtype`, contiguous, aligned, in native byte order; the same object where it is all of that."""
    if array.dtype == dtype and array.flags.c_contiguous and array.flags.aligned:
        return array  # NumPy takes four times as long to say so
    return np.require(array, dtype=dtype, requirements=["C_CONTIGUOUS", "ALIGNED"])


def _tidy_values(array: _Array, dtype: np.dtype[Any]) -> _Array:
    converts = array.dtype != dtype and _bfloat16.DTYPE in (array.dtype, dtype)
    return _tidy(_bfloat16.cast(array, dtype) if converts else array, dtype)


def _integers(values: Any, argument: str) -> _Array:
    array = _array(values, argument)
    if array.ndim != 1:
        raise InvalidMatrixError(f"{argument} must be one-dimensional, got shape {array.shape}", argument=argument)
    if array.dtype.kind not in "iu":
        raise DtypeError(f"{argument} must be integers, got {array.dtype}", argument=argument)
    return array


def _offsets(values: Any) -> _Array:
    array = _integers(values, "indptr")
    if array.dtype.kind == "u" and array.dtype.itemsize == 8:
        beyond = array > _MOST_OFFSET
        if beyond.any():
            first = int(beyond.argmax())
            raise InvalidMatrixError(
                f"indptr[{first}] = {array[first]} is beyond 64-bit offsets",
                argument="indptr",
                position=first,
            )
    # The core widens int32 itself, on several threads.
    return _tidy(array, np.int32 if array.dtype == np.int32 else np.int64)


def _indices(values: Any, argument: str) -> _Array:
    """Widen indices to the narrowest type of the core that holds all their values."""
    array = _integers(values, argument)
    for dtype in (np.int32, np.int64):
        if np.can_cast(array.dtype, dtype, "safe"):
            return _tidy(array, dtype)
    return _tidy(array, np.uint64)


def _one_dimensional(values: Any) -> _Array:
    array = _array(values, "data")
    if array.ndim != 1:
        raise InvalidMatrixError(f"data must be one-dimensional, got shape {array.shape}", argument="data")
    return array


def _check_length(values: Any, nnz: int) -> None:
    """Check that there is a value for each nonzero, of whatever type."""
    size = _one_dimensional(values).size
    if size < nnz:
        raise InvalidMatrixError(
            f"data must have at least nnz = {nnz} entries, got {size}", argument="data", position=size
        )


def _values(values: Any, wanted: np.dtype[Any] | None) -> _Array:
    array = _one_dimensional(values)
    _check_value_dtype(array.dtype)
    if wanted is None:
        own = array.dtype.newbyteorder("=")
        wanted = own if _is_supported(own) else np.dtype(np.float64)
    return _tidy_values(array, wanted)


def _check_value_dtype(dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "biu" and not _is_supported(dtype):
        raise DtypeError(
            f"data of A must be float16, bfloat16, float32, float64, integers or booleans, got {dtype}; see A.astype",
            argument="data",
        )


def _recast(view: _core.CsrView, wanted: np.dtype[Any] | None, pattern_only: bool) -> _core.CsrView:
    if pattern_only:
        return view
    if view.data is None:
        raise InvalidMatrixError("A is a pattern without values", argument="A")
    if wanted is None or view.data.dtype == wanted:
        return view
    return _core.CsrView(view.indptr, view.indices, _tidy_values(view.data, wanted), *view.shape)


# ----- one function per format a caller may hold: (indptr, indices, data, shape), to be validated -----

_Parts = tuple[Any, Any, Any, tuple[int, ...]]


def _for_scipy(values: _Array) -> _Array:
    """SciPy does not compute with types of two bytes."""
    is_half = values.dtype == np.float16 or values.dtype == _bfloat16.DTYPE
    return _bfloat16.cast(values, np.dtype(np.float32)) if is_half else values


def _from_csr(A: Any) -> _Parts:
    return A.indptr, A.indices, A.data, A.shape


def _from_csc(A: Any) -> _Parts:
    num_rows, num_cols = _two_sizes(A.shape)
    # The same three arrays are the CSR arrays of the transpose: once validated as such, they are safe to convert.
    transpose = compressed(A.indptr, A.indices, _one_dimensional(A.data), (num_cols, num_rows))
    arrays = (_for_scipy(transpose.data), transpose.indices, transpose.indptr)
    return _from_csr(scipy.sparse.csc_array(arrays, shape=A.shape).tocsr())


def _from_coo(A: Any) -> _Parts:
    _two_sizes(A.shape)
    return _from_triplets(A.row, A.col, A.data, A.shape)


def _from_triplets(row: Any, col: Any, data: Any, shape: tuple[int, ...]) -> _Parts:
    """CSR parts of (row, col, value) triplets, as SciPy does: entries at the same place are added."""
    values = _values(data, None)
    coordinates = {"row": _indices(row, "row"), "col": _indices(col, "col")}
    for (name, array), size in zip(coordinates.items(), shape, strict=True):
        if array.size != values.size:
            raise InvalidMatrixError(f"{name} has {array.size} entries but data has {values.size}", argument=name)
        outside = (array < 0) | (array >= size)
        if outside.any():
            first = int(outside.argmax())
            raise InvalidMatrixError(
                f"{name}[{first}] = {array[first]} is outside [0, {size})", argument=name, position=first
            )
        coordinates[name] = array.astype(np.int32, copy=False)
    triplets = (_for_scipy(values), (coordinates["row"], coordinates["col"]))
    return _from_csr(scipy.sparse.coo_array(triplets, shape=shape).tocsr())


def _from_bsr(A: Any) -> _Parts:
    num_rows, num_cols = _two_sizes(A.shape)
    blocks = _array(A.data, "data")
    _check_value_dtype(blocks.dtype)
    if blocks.ndim != 3 or 0 in blocks.shape[1:]:
        raise InvalidMatrixError(f"data of a BSR matrix must be blocks, got shape {blocks.shape}", argument="data")
    height, width = blocks.shape[1:]
    if num_rows % height or num_cols % width:
        raise InvalidMatrixError(f"blocks of {height} x {width} do not tile {num_rows} x {num_cols}", argument="data")
    pattern = compressed(A.indptr, A.indices, None, (num_rows // height, num_cols // width))
    if len(blocks) < pattern.nnz:
        raise InvalidMatrixError(
            f"data must hold at least {pattern.nnz} blocks, got {len(blocks)}",
            argument="data",
            position=len(blocks),
        )
    blocks = blocks[: pattern.nnz]
    arrays = (_for_scipy(blocks.astype(blocks.dtype.newbyteorder("="))), pattern.indices, pattern.indptr)
    return _from_csr(scipy.sparse.bsr_array(arrays, shape=A.shape).tocsr())


def _from_dia(A: Any) -> _Parts:
    num_rows, num_cols = _two_sizes(A.shape)
    diagonals = _array(A.data, "data")
    _check_value_dtype(diagonals.dtype)
    offsets = _integers(A.offsets, "offsets")
    if diagonals.ndim != 2 or len(diagonals) != offsets.size:
        raise InvalidMatrixError(
            f"data must hold one row for each of the {offsets.size} offsets, got shape {diagonals.shape}",
            argument="data",
        )
    if np.unique(offsets).size != offsets.size:
        raise InvalidMatrixError("offsets must not repeat", argument="offsets")
    inside = (offsets > -num_rows) & (offsets < num_cols)  # the other diagonals hold no entries of the matrix
    arrays = (_for_scipy(diagonals[inside].astype(diagonals.dtype.newbyteorder("="))), offsets[inside].astype(np.int64))
    return _from_csr(scipy.sparse.dia_array(arrays, shape=A.shape).tocsr())


def _from_lil(A: Any) -> _Parts:
    _check_value_dtype(A.dtype)
    if len(A.rows) != len(A.data):
        raise InvalidMatrixError(f"{len(A.rows)} rows but {len(A.data)} lists of values", argument="data")
    lengths = [len(row) for row in A.rows]
    for row, (columns, values) in enumerate(zip(A.rows, A.data, strict=True)):
        if len(columns) != len(values):
            raise InvalidMatrixError(
                f"row {row} has {len(columns)} columns but {len(values)} values",
                argument="data",
                position=row,
            )
    indptr = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    indices = _python_integers(chain.from_iterable(A.rows), "rows")
    return indptr, indices, np.fromiter(chain.from_iterable(A.data), dtype=A.dtype), A.shape


def _from_dok(A: Any) -> _Parts:
    _two_sizes(A.shape)
    _check_value_dtype(A.dtype)
    keys = _python_integers(chain.from_iterable(A.keys()), "keys").reshape(-1, 2)
    return _from_triplets(keys[:, 0], keys[:, 1], np.fromiter(A.values(), dtype=A.dtype), A.shape)


def _python_integers(values: Any, argument: str) -> _Array:
    try:
        return np.fromiter(values, dtype=np.int64)
    except (TypeError, ValueError) as error:
        raise InvalidMatrixError(f"{argument} hold what is no integer: {error}", argument=argument) from error
    except OverflowError as error:
        raise IndexOverflowError(f"{argument} hold an index beyond 64 bits", argument=argument) from error


_SCIPY_FORMATS = {
    "csr": _from_csr,
    "csc": _from_csc,
    "coo": _from_coo,
    "bsr": _from_bsr,
    "dia": _from_dia,
    "lil": _from_lil,
    "dok": _from_dok,
}


def _package_of(A: Any) -> str | None:
    """Name the framework the object, or a class it derives from, comes from. Imports nothing."""
    for cls in type(A).__mro__:
        package = cls.__module__.partition(".")[0]
        if package in ("torch", "cupyx"):
            return package
    return None


def _from_torch(A: Any) -> _Parts:
    layout = str(A.layout).removeprefix("torch.sparse_")
    if layout not in ("csr", "csc", "coo"):
        raise InvalidMatrixError(
            f"A must be a sparse tensor in CSR, CSC or COO, got layout {A.layout}; convert it with A.to_sparse_csr()",
            argument="A",
        )
    shape = _two_sizes(tuple(A.shape))
    if layout == "coo":
        if A.dense_dim():
            raise InvalidMatrixError("A must be sparse in both dimensions, and is dense within its rows", argument="A")
        row, col = A._indices().cpu().numpy()
        return _from_triplets(row, col, _on_host(A._values()), shape)
    if layout == "csr":
        return A.crow_indices().cpu().numpy(), A.col_indices().cpu().numpy(), _on_host(A.values()), shape
    indptr, indices = A.ccol_indices().cpu().numpy(), A.row_indices().cpu().numpy()
    return _from_csc(SimpleNamespace(indptr=indptr, indices=indices, data=_on_host(A.values()), shape=shape))


def _on_host(values: Any) -> _Array:
    return _bfloat16.of_tensor(values.detach().cpu())


def _cupy_to_scipy(A: Any) -> Any:
    try:
        return A.get()
    except ValueError as error:
        raise InvalidMatrixError(f"A is malformed: {error}", argument="A") from error
