"""Matrices from files.

The parsing is done by SciPy and NumPy. What they let pass is caught here: files that are not what their name
says, sizes that the file cannot hold, arrays that do not form a matrix. No file is ever unpickled.
"""

from __future__ import annotations

import gzip
import io
import os
import zipfile
import zlib
from collections.abc import Callable
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np
import scipy.io
import scipy.sparse

from warploom import _core
from warploom._matrix import as_csr, from_arrays
from warploom.errors import (
    DtypeError,
    FileFormatError,
    IndexOverflowError,
    InvalidMatrixError,
    OutOfMemoryError,
    ShapeError,
)

__all__ = ["load"]

_MOST = np.iinfo(np.int32).max
_GZIP_MAGIC = b"\x1f\x8b"
_ZIP_MAGIC = b"PK\x03\x04"


def load(path: str | os.PathLike[str]) -> scipy.sparse.csr_array:
    """Read a matrix.

    Parameters
    ----------
    path : str or path-like
        A Matrix Market file (``.mtx``, ``.mtx.gz``) or what `scipy.sparse.save_npz` writes (``.npz``, in any
        of its formats).

    Returns
    -------
    scipy.sparse.csr_array, shape (m, n)
        float32 if an ``.npz`` file says so, else float64. Pattern entries become ones, symmetric storage is
        expanded, and entries that a coordinate format gives twice are added up.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    FileFormatError
        The file is truncated, damaged, or not what its name says. ``position`` is the first bad place in the
        array that the message names, if it is an array of an ``.npz`` file.
    DtypeError
        The values are complex or of another type that is not supported.
    IndexOverflowError
        More than 2**31 - 1 rows or columns.
    OutOfMemoryError
        The matrix does not fit into memory.

    Notes
    -----
    The number of entries that a Matrix Market file announces is compared with its size before anything is
    allocated for them. The row offsets, 8 bytes a row, are allocated after the entries have been read: a
    matrix of 10^9 empty rows is legal and gets what it asks for. Compressed files are read twice, once to
    check them and to know their size.
    """
    name = os.fspath(path)
    with open(name, "rb"):  # FileNotFoundError, PermissionError, IsADirectoryError
        pass
    reader = next((reader for ending, reader in _READERS.items() if name.lower().endswith(ending)), None)
    if reader is None:
        raise FileFormatError(f"{name}: the name must end in one of {', '.join(_READERS)}", argument="path")
    try:
        view = reader(name)
        return scipy.sparse.csr_array((view.data, view.indices, view.indptr), shape=view.shape)
    except (InvalidMatrixError, ShapeError) as error:
        raise FileFormatError(f"{name}: {error}", argument="path", position=error.position) from error
    except (DtypeError, IndexOverflowError) as error:
        raise type(error)(f"{name}: {error}", argument="path", position=error.position) from error
    except MemoryError as error:
        raise OutOfMemoryError(f"{name}: the matrix does not fit into memory", argument="path") from error


def _damaged(path: str, reason: object, cause: BaseException | None = None) -> NoReturn:
    raise FileFormatError(f"{path}: {reason}", argument="path") from cause


# ----- Matrix Market -----


def _read_plain(path: str) -> _core.CsrView:
    with open(path, "rb") as stream:
        if stream.read(2) == _GZIP_MAGIC:
            _damaged(path, "is compressed with gzip; its name should end in .mtx.gz")
        stream.seek(0)
        return _read_matrix_market(path, stream, os.path.getsize(path))


def _read_gzip(path: str) -> _core.CsrView:
    try:
        with gzip.open(path, "rb") as stream:
            size = 0
            while chunk := stream.read(1 << 20):
                size += len(chunk)
        with gzip.open(path, "rb") as stream:
            return _read_matrix_market(path, stream, size)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        _damaged(path, f"is not an intact gzip file: {error}", error)


class _Header(NamedTuple):
    layout: str  # "coordinate" or "array"
    field: str  # "real", "double", "integer", "unsigned-integer" or "pattern"
    symmetry: str  # "general", "symmetric" or "skew-symmetric"
    sizes: tuple[int, ...]  # rows, columns and, in coordinate layout, entries

    def least_bytes(self) -> int:
        """Count the bytes that the announced entries take at the very least."""
        if self.layout == "coordinate":
            return self.sizes[2] * len("1 1\n" if self.field == "pattern" else "1 1 1\n") - 1
        rows, cols = self.sizes
        entries = {"symmetric": rows * (rows + 1) // 2, "skew-symmetric": rows * (rows - 1) // 2}
        return entries.get(self.symmetry, rows * cols) * len("1\n") - 1


def _read_matrix_market(path: str, stream: IO[bytes] | gzip.GzipFile, size: int) -> _core.CsrView:
    header = _read_header(path, stream)
    if header.least_bytes() > size - stream.tell():
        _damaged(path, f"is truncated: it announces {' x '.join(map(str, header.sizes[:2]))}, " + _entries(header))
    # Read as real numbers whatever the field says: SciPy would cut 7.5 in an integer file down to 7.
    field = "pattern" if header.field == "pattern" else "real"
    banner = f"%%MatrixMarket matrix {header.layout} {field} {header.symmetry}\n"
    text = _Joined(f"{banner}{' '.join(map(str, header.sizes))}\n".encode(), stream)
    try:
        matrix = scipy.io.mmread(text)
    except (ValueError, OverflowError, TypeError) as error:
        _damaged(path, error, error)
    if isinstance(matrix, np.ndarray):
        matrix = scipy.sparse.coo_array(matrix)
    return as_csr(matrix)


def _entries(header: _Header) -> str:
    count = f"{header.sizes[2]} entries" if header.layout == "coordinate" else "all of them stored"
    return f"{count}, which take at least {header.least_bytes()} bytes"


def _read_header(path: str, stream: IO[bytes] | gzip.GzipFile) -> _Header:
    banner = stream.readline(1024).decode("ascii", "replace").lower().split()
    if not banner:
        _damaged(path, "is empty or starts with an empty line, not with %%MatrixMarket")
    if banner[0] not in ("%%matrixmarket", "%matrixmarket") or len(banner) != 5:
        _damaged(path, "is not a Matrix Market file: it must start with %%MatrixMarket and four more words")
    _, thing, layout, field, symmetry = banner
    if thing != "matrix":
        _damaged(path, f"holds a {thing}, not a matrix")
    if field == "complex" or symmetry == "hermitian":
        raise DtypeError("complex values are not supported")
    for word, known in (
        (layout, ("coordinate", "array")),
        (field, ("real", "double", "integer", "unsigned-integer", "pattern")),
        (symmetry, ("general", "symmetric", "skew-symmetric")),
    ):
        if word not in known:
            _damaged(path, f"{word!r} in the first line is none of {', '.join(known)}")
    if layout == "array" and field == "pattern":
        _damaged(path, "a dense array cannot be a pattern")
    line = stream.readline()
    while line.startswith(b"%") or (line and not line.strip()):
        line = stream.readline()
    words = line.split()
    if len(words) != (3 if layout == "coordinate" else 2) or not all(word.isdigit() for word in words):
        found = line[:60].decode("ascii", "replace").strip()
        _damaged(path, f"the line of sizes is missing or wrong: {found!r}" if words else "ends before the sizes")
    sizes = tuple(int(word[:40]) for word in words)
    for number, what in zip(sizes, ("rows", "columns"), strict=False):
        if number > _MOST:
            raise IndexOverflowError(f"{number} {what} are beyond the 32-bit row and column index type")
    if symmetry != "general" and sizes[0] != sizes[1]:
        _damaged(path, f"is called {symmetry} but has {sizes[0]} rows and {sizes[1]} columns")
    return _Header(layout, field, symmetry, sizes)


class _Joined(io.RawIOBase):
    """A few bytes, then what is left of a stream."""

    def __init__(self, start: bytes, rest: IO[bytes] | gzip.GzipFile) -> None:
        self._start = start
        self._rest = rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if self._start:
            size = len(self._start) if size < 0 else size
            piece, self._start = self._start[:size], self._start[size:]
            return piece
        return self._rest.read(size)


# ----- SciPy's .npz -----

_ARRAYS = {
    "csr": ("indptr", "indices", "data"),
    "csc": ("indptr", "indices", "data"),
    "bsr": ("indptr", "indices", "data"),
    "coo": ("row", "col", "data"),
    "dia": ("offsets", "data"),
}


def _read_npz(path: str) -> _core.CsrView:
    try:
        with open(path, "rb") as stream:
            if stream.read(4) != _ZIP_MAGIC:
                _damaged(path, "is not an .npz file: those are zip archives of arrays")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as archive:
                return _read_archive(path, archive)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        _damaged(path, f"is not an intact .npz file: {error}", error)
    except (NotImplementedError, RuntimeError) as error:  # encrypted, or a compression that zipfile lacks
        _damaged(path, error, error)


def _read_archive(path: str, archive: Any) -> _core.CsrView:
    def array(name: str) -> Any:
        if name not in archive:
            _damaged(path, f"holds no array {name!r}, so it is not a matrix that scipy.sparse.save_npz wrote")
        try:
            value = archive[name]
        except (ValueError, MemoryError, OSError, SyntaxError) as error:
            _damaged(path, f"array {name!r} is damaged: {error}", error)
        if not isinstance(value, np.ndarray):  # NumPy hands out what it does not recognise as bytes
            _damaged(path, f"{name!r} is not an array")
        return value

    stored = array("format")
    format = stored.item() if stored.ndim == 0 else None
    format = format.decode("ascii", "replace") if isinstance(format, bytes) else format
    if format not in _ARRAYS:
        _damaged(path, f"its format must be one of {', '.join(_ARRAYS)}, got {format!r}")
    shape = array("shape")
    if shape.ndim != 1 or shape.dtype.kind not in "iu" or (shape.astype(object) < 0).any():
        _damaged(path, f"its shape is not a list of sizes: {shape!r}")
    return from_arrays(format, {name: array(name) for name in _ARRAYS[format]}, tuple(map(int, shape)))


_READERS: dict[str, Callable[[str], _core.CsrView]] = {
    ".mtx": _read_plain,
    ".mtx.gz": _read_gzip,
    ".npz": _read_npz,
}
