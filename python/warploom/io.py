"""Matrices from files.

The parsing is done by SciPy and NumPy. What they accept is checked here: files that are not what their name
says, sizes that the file cannot hold, arrays that do not form a matrix. No file is ever unpickled.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import os
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, NamedTuple, NoReturn, TypeVar

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
    ParameterError,
    ShapeError,
    WarploomError,
)

__all__ = ["load"]

_MOST = np.iinfo(np.int32).max
_GZIP_MAGIC = b"\x1f\x8b"
_ZIP_MAGIC = b"PK\x03\x04"
_Result = TypeVar("_Result")
_LONGEST_REASON = 500

MAX_EXPANDED_BYTES = "WARPLOOM_MAX_EXPANDED_BYTES"
"""Environment variable with the most bytes that a compressed file may expand to."""


def load(path: str | os.PathLike[str], *, max_expanded_bytes: int | None = None) -> scipy.sparse.csr_array:
    """Read a matrix.

    Parameters
    ----------
    path : str or path-like
        A Matrix Market file (``.mtx``, ``.mtx.gz``), an archive of the SuiteSparse collection (``.tar.gz``, of which
        ``NAME/NAME.mtx`` is read) or what `scipy.sparse.save_npz` writes (``.npz``, in any of its formats).
    max_expanded_bytes : int, optional
        Most bytes that a compressed file may expand to. By default that is what the environment variable
        ``WARPLOOM_MAX_EXPANDED_BYTES`` says, and without it 200 times the size of the file; a ``.mtx.gz`` or ``.npz``
        file may expand to 1 GiB however small it is.

    Returns
    -------
    scipy.sparse.csr_array, shape (m, n)
        float32 if an ``.npz`` file says so, else float64. Pattern entries become ones, symmetric storage is
        expanded, and entries that a coordinate format gives twice are added.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    FileFormatError
        The file is truncated, damaged, or not what its name says, or expands beyond the limit. ``position`` is the
        first bad place in the array that the message names, if it is an array of an ``.npz`` file.
    DtypeError
        The values are complex or of another type that is not supported.
    IndexOverflowError
        More than 2**31 - 1 rows or columns.
    OutOfMemoryError
        The matrix does not fit into memory.
    ParameterError
        The limit is not a positive number.

    Notes
    -----
    A line of entries in a Matrix Market file holds its numbers and nothing else; a decimal exponent begins with e or,
    as in Fortran, with d. The number of entries that such a file announces is compared with its size before anything is
    allocated for them. The row offsets, 8 bytes a row, are allocated after the entries have been read: a
    matrix of 10^9 empty rows is legal and gets its memory. Compressed text is read twice, once to
    check it and to know its size. Nothing in an archive is written to the disk.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import scipy.io
    >>> import warploom as wl
    >>> A = wl.examples.load("gr_30_30")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "matrix.mtx")
    ...     scipy.io.mmwrite(path, A)
    ...     print(wl.load(path).nnz == A.nnz)
    True
    """
    name = os.fspath(path)
    known = ending(name)
    if known is None and not os.path.exists(name):
        reason = "no such file; warploom.corpus.load and warploom.examples.load find matrices by name"
        raise FileNotFoundError(errno.ENOENT, reason, name)
    with open(name, "rb"):  # FileNotFoundError, PermissionError, IsADirectoryError
        pass
    if known is None:
        raise FileFormatError(f"{name}: the name must end in one of {', '.join(ENDINGS)}", argument="path")
    try:
        view = _READERS[known](name, _allowed(max_expanded_bytes))
        return scipy.sparse.csr_array((view.data, view.indices, view.indptr), shape=view.shape)
    except (InvalidMatrixError, ShapeError) as error:
        raise FileFormatError(f"{name}: {_brief(error)}", argument="path", position=error.position) from error
    except (DtypeError, IndexOverflowError) as error:
        raise type(error)(f"{name}: {_brief(error)}", argument="path", position=error.position) from error
    except MemoryError as error:
        raise OutOfMemoryError(f"{name}: the matrix does not fit into memory", argument="path") from error


def ending(name: str) -> str | None:
    """Return the ending by which a file is read, in lower case, or None if it is not read."""
    return next((known for known in _READERS if name.lower().endswith(known)), None)


def archive_sizes(path: str | os.PathLike[str]) -> tuple[int, ...]:
    """Check that an archive of the SuiteSparse collection is intact, and read rows and columns of its matrix.

    Parameters
    ----------
    path : str or path-like
        A ``.tar.gz``.

    Returns
    -------
    tuple of int
        Rows, columns and, unless the matrix is stored dense, the entries in the file: those of one triangle if the
        matrix is symmetric.

    Raises
    ------
    FileFormatError
        The archive is truncated, damaged, or holds no matrix.
    """
    name = os.fspath(path)
    return _in_archive(name, _allowed(None), lambda stream, size: _read_header(name, stream, complex_too=True).sizes)


def _damaged(path: str, reason: object, cause: BaseException | None = None) -> NoReturn:
    raise FileFormatError(f"{path}: {_brief(reason)}", argument="path") from cause


def _brief(reason: object) -> str:
    """Cut a reason short that quotes a whole file."""
    text = str(reason)
    return text if len(text) <= _LONGEST_REASON else f"{text[: _LONGEST_REASON - 3]}..."


@contextlib.contextmanager
def _intact(path: str, kind: str) -> Iterator[None]:
    """Turn whatever a parser raises on bytes that it did not expect into one error.

    The parsers are those of SciPy, NumPy and Python's library, none of which says what it may raise.
    """
    try:
        yield
    except (WarploomError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # the disk's fault, not the file's
            raise
        _damaged(path, f"is not an intact {kind}: {error}", error)


# ----- how far a compressed file may expand -----

_MOST_EXPANSION = 200  # deflate reaches 1032; the text of a matrix, with its numbers, some 20
_GIB = 1 << 30  # as far as a file may expand that is small: one of constant diagonals reaches what deflate does


def _allowed(given: int | None) -> int | None:
    """Return the limit that the caller or the environment sets."""
    source: str = "max_expanded_bytes"
    value: int | str | None = given
    if value is None:
        source, value = MAX_EXPANDED_BYTES, os.environ.get(MAX_EXPANDED_BYTES) or None
    if value is None:
        return None
    try:
        allowed = int(value)
    except (TypeError, ValueError):
        allowed = 0
    if allowed < 1:
        raise ParameterError(f"{source} must be a positive number of bytes, got {value!r}", argument=source)
    return allowed


class _Limit:
    """How far a file may expand: as far as allowed, or by its size, but at least so far."""

    def __init__(self, path: str, allowed: int | None, *, least: int = _GIB, more: int = 0) -> None:
        by_size = _MOST_EXPANSION * os.path.getsize(path)
        self._path = path
        self._most = allowed or max(by_size, least) + more
        self._words = f"{allowed or least} bytes" if allowed or least > by_size else f"{_MOST_EXPANSION} times its size"

    def check(self, size: int) -> None:
        """Refuse a file that holds so much."""
        if size > self._most:
            way_out = f"set max_expanded_bytes, or {MAX_EXPANDED_BYTES}, to read it anyway"
            _damaged(self._path, f"expands to more than {self._words}; {way_out}")


class _Bounded(io.RawIOBase):
    """A stream that gives up where a file expands too far."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, limit: _Limit) -> None:
        self._stream = stream
        self._limit = limit
        self._done = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self._done += len(data)
        self._limit.check(self._done)
        return data


# ----- Matrix Market -----


def _read_plain(path: str, _: int | None) -> _core.CsrView:
    with open(path, "rb") as stream:
        if stream.read(2) == _GZIP_MAGIC:
            _damaged(path, "is compressed with gzip; its name should end in .mtx.gz")
        stream.seek(0)
        return _read_matrix_market(path, stream, os.path.getsize(path))


def _read_gzip(path: str, allowed: int | None) -> _core.CsrView:
    with _intact(path, "gzip file"):
        with gzip.open(path, "rb") as stream:
            bounded = _Bounded(stream, _Limit(path, allowed))
            size = 0
            while chunk := bounded.read(1 << 20):
                size += len(chunk)
        with gzip.open(path, "rb") as stream:
            return _read_matrix_market(path, stream, size)


class _Header(NamedTuple):
    layout: str  # "coordinate" or "array"
    field: str  # "real", "double", "integer", "unsigned-integer" or "pattern"
    symmetry: str  # "general", "symmetric" or "skew-symmetric"
    sizes: tuple[int, ...]  # rows, columns and, in coordinate layout, entries
    lines: int  # of the file, up to the sizes

    def entries(self) -> int:
        """Count the entries in the file."""
        if self.layout == "coordinate":
            return self.sizes[2]
        rows, cols = self.sizes
        entries = {"symmetric": rows * (rows + 1) // 2, "skew-symmetric": rows * (rows - 1) // 2}
        return entries.get(self.symmetry, rows * cols)

    def form(self) -> str:
        """Say what a line of an entry consists of."""
        if self.layout == "array":
            return "a value"
        return "a row and a column" if self.field == "pattern" else "a row, a column and a value"

    def least_bytes(self) -> int:
        """Return the minimum number of bytes of the announced entries."""
        if self.layout == "coordinate":
            return self.entries() * len("1 1\n" if self.field == "pattern" else "1 1 1\n") - 1
        return self.entries() * len("1\n") - 1


def _read_matrix_market(path: str, stream: IO[bytes] | gzip.GzipFile, size: int) -> _core.CsrView:
    header = _read_header(path, stream)
    if header.least_bytes() > size - stream.tell():
        _damaged(path, f"is truncated: it announces {' x '.join(map(str, header.sizes[:2]))}, " + _entries(header))
    if header.entries() == 0 and header.layout == "array":
        return _read_no_entries(path, header, stream)
    # Read as real numbers whatever the field says: SciPy would truncate 7.5 in an integer file to 7.
    field = "pattern" if header.field == "pattern" else "real"
    banner = f"%%MatrixMarket matrix {header.layout} {field} {header.symmetry}\n"
    text = _CheckedText(f"{banner}{' '.join(map(str, header.sizes))}\n".encode(), stream, header)
    try:
        matrix = scipy.io.mmread(text)
    except MemoryError:
        raise
    except Exception as error:  # whatever a parser makes of a file that is none
        _damaged(path, text.complaint or _in_the_file(str(error), header), error)
    if text.complaint:
        _damaged(path, text.complaint)
    if text.entries != header.entries():  # SciPy does not miss values of an array that is symmetric
        _damaged(path, f"Truncated file. It announces {header.entries()} entries and holds {text.entries}")
    if isinstance(matrix, np.ndarray):
        matrix = scipy.sparse.coo_array(matrix)
    return as_csr(matrix)


def _read_no_entries(path: str, header: _Header, stream: IO[bytes] | gzip.GzipFile) -> _core.CsrView:
    """Read a dense array without entries, with which SciPy's parser divides by zero."""
    line = header.lines
    while text := stream.readline(1 << 16):
        line += 1
        if text.strip():
            _damaged(path, f"Line {line}: too many entries, there are none in {' x '.join(map(str, header.sizes))}")
    return as_csr(scipy.sparse.csr_array(header.sizes))


def _in_the_file(complaint: str, header: _Header) -> str:
    """Count lines as the file does: the parser sees two before the entries."""
    return re.sub(r"\ALine (\d+)", lambda found: f"Line {int(found[1]) - 2 + header.lines}", complaint)


def _entries(header: _Header) -> str:
    count = f"{header.sizes[2]} entries" if header.layout == "coordinate" else "all of them stored"
    return f"{count}, which take at least {header.least_bytes()} bytes"


def _read_header(path: str, stream: IO[bytes] | gzip.GzipFile, *, complex_too: bool = False) -> _Header:
    banner = [word.decode("ascii", "replace") for word in stream.readline(1024).lower().split()]
    if not banner:
        _damaged(path, "is empty or starts with an empty line, not with %%MatrixMarket")
    if banner[0] not in ("%%matrixmarket", "%matrixmarket") or len(banner) != 5:
        _damaged(path, "is not a Matrix Market file: it must start with %%MatrixMarket and four more words")
    _, thing, layout, field, symmetry = banner
    if thing != "matrix":
        _damaged(path, f"holds a {thing}, not a matrix")
    if (field == "complex" or symmetry == "hermitian") and not complex_too:
        raise DtypeError("complex values are not supported")
    for word, known in (
        (layout, ("coordinate", "array")),
        (field, ("real", "double", "integer", "unsigned-integer", "pattern", "complex")),
        (symmetry, ("general", "symmetric", "skew-symmetric", "hermitian")),
    ):
        if word not in known:
            _damaged(path, f"{word!r} in the first line is none of {', '.join(known)}")
    if layout == "array" and field == "pattern":
        _damaged(path, "a dense array cannot be a pattern")
    lines = 2
    line = stream.readline()
    while line.startswith(b"%") or (line and not line.strip()):
        line = stream.readline()
        lines += 1
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
    return _Header(layout, field, symmetry, sizes, lines)


class _CheckedText(io.RawIOBase):
    """A few bytes, then the lines of entries, which are checked, with the end of the last line.

    SciPy's parser takes the number that a field begins with and passes over the rest of the line: it would read 1d5,
    1,5 and 0x10 without complaint. It runs past the end of its buffer where something follows a value and no end of the
    line comes.
    """

    def __init__(self, start: bytes, rest: IO[bytes] | gzip.GzipFile, header: _Header) -> None:
        self._block = start
        self._at = 0
        self._rest = rest
        self._header = header
        self._lines = _core.EntryLines(2 if header.layout == "coordinate" else 0, header.field != "pattern")
        self._line = 0  # in which the block begins, of those of entries
        self._start_of_line = b""
        self._ended = False
        self.complaint = ""
        """What is wrong with the text; nothing is read behind it."""

    @property
    def entries(self) -> int:
        """Number of entries read."""
        return self._lines.entries

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if self._at == len(self._block):
            self._block, self._at = self._next_block(), 0
        end = len(self._block) if size < 0 else self._at + size
        piece = self._block[self._at : end]
        self._at += len(piece)
        return piece

    def _next_block(self) -> bytes:
        if self._ended:
            return b""
        block = self._rest.read(1 << 18)
        if not block:  # the end of the last line
            self._ended, block = True, b"\n"
        bad = self._lines.check(block)
        if bad >= 0:
            self._ended, self.complaint = True, self._what_is_wrong(block, bad)
            return b"\n"
        self._line += block.count(b"\n")
        self._start_of_line = (self._start_of_line + block)[-200:].rpartition(b"\n")[2]
        return block.translate(_EXPONENTS) if b"d" in block or b"D" in block else block

    def _what_is_wrong(self, block: bytes, bad: int) -> str:
        before = bad - self._line
        text = (self._start_of_line + block).split(b"\n", before + 1)[before]
        if b"\0" in text:
            return "holds a zero byte, which no text does"
        found = text[:60].decode("ascii", "replace").strip()
        return f"Line {self._header.lines + 1 + bad}: expected {self._header.form()}, got {found!r}"


_EXPONENTS = bytes.maketrans(b"dD", b"ee")  # Fortran writes those of its double precision with a d


# ----- the .tar.gz of the SuiteSparse collection -----


def _read_tar(path: str, allowed: int | None) -> _core.CsrView:
    return _in_archive(path, allowed, lambda stream, size: _read_matrix_market(path, stream, size))


def _in_archive(path: str, allowed: int | None, read: Callable[[IO[bytes], int], _Result]) -> _Result:
    """Read the matrix in an archive, after a pass over all of it."""
    limit = _Limit(path, allowed, least=0, more=1 << 20)
    with _intact(path, ".tar.gz archive"):
        with _opened(path, limit) as (archive, unpacked):
            wanted = _find_matrix(path, _members(archive, limit))
            while unpacked.read(1 << 20):  # the checksum is at the end
                pass
        with _opened(path, limit) as (archive, _):
            for member in _members(archive, limit):
                stream = archive.extractfile(member) if member.offset == wanted else None
                if stream is not None:
                    return read(stream, member.size)
    _damaged(path, "has changed while it was read")


@contextlib.contextmanager
def _opened(path: str, limit: _Limit) -> Iterator[tuple[tarfile.TarFile, _Bounded]]:
    """Open an archive, and the stream that it lies in, for reading from front to end."""
    with gzip.open(path, "rb") as unpacked:
        bounded = _Bounded(unpacked, limit)
        with tarfile.open(fileobj=bounded, mode="r|") as archive:
            yield archive, bounded


def _members(archive: tarfile.TarFile, limit: _Limit) -> Iterator[tarfile.TarInfo]:
    """Yield the members of an archive.

    `tarfile` goes on to the next one by reading up to where it has to be, in small steps and whether the file ends or
    not: a header that announces 2**62 bytes would keep it busy for years.
    """
    for member in archive:
        limit.check(archive.offset)
        yield member


def _find_matrix(path: str, members: Iterable[tarfile.TarInfo]) -> int:
    """Return the offset of NAME/NAME.mtx."""
    found = {}
    others = []
    for member in members:
        parts = member.name.removeprefix("./").split("/")
        is_file = member.isreg() and not member.issparse()
        if is_file and len(parts) == 2 and parts[0] not in ("", ".", "..") and parts[1] == f"{parts[0]}.mtx":
            found[member.offset] = member.name
        elif member.name.endswith(".mtx"):
            others.append(member.name)
    if len(found) != 1:
        seen = f", only {', '.join(others[:3])}" if others else ""
        reason = f"holds several matrices: {', '.join(found.values())}" if found else f"holds no NAME/NAME.mtx{seen}"
        _damaged(path, reason)
    return next(iter(found))


# ----- SciPy's .npz -----

_ARRAYS = {
    "csr": ("indptr", "indices", "data"),
    "csc": ("indptr", "indices", "data"),
    "bsr": ("indptr", "indices", "data"),
    "coo": ("row", "col", "data"),
    "dia": ("offsets", "data"),
}


def _read_npz(path: str, allowed: int | None) -> _core.CsrView:
    with _intact(path, ".npz file"), open(path, "rb") as stream:
        if stream.read(4) != _ZIP_MAGIC:
            _damaged(path, "is not an .npz file: those are zip archives of arrays")
        stream.seek(0)
        # What is read of a member is what the directory says of it, so that nothing has to be expanded to know.
        names = {name for arrays in _ARRAYS.values() for name in arrays} | {"format", "shape"}
        with zipfile.ZipFile(stream) as directory:
            members = [member for member in directory.infolist() if member.filename.removesuffix(".npy") in names]
            _Limit(path, allowed).check(sum(member.file_size for member in members))
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as archive:
            return _read_archive(path, archive)


def _read_archive(path: str, archive: Any) -> _core.CsrView:
    def array(name: str) -> Any:
        if name not in archive:
            _damaged(path, f"holds no array {name!r}, so it is not a matrix that scipy.sparse.save_npz wrote")
        try:
            value = archive[name]
        except OSError as error:
            if error.errno not in (None, errno.EINVAL):
                raise
            _damaged(path, f"array {name!r} is damaged: {error}", error)
        except Exception as error:  # as in `_intact`; a size that no memory holds, too
            _damaged(path, f"array {name!r} is damaged: {error}", error)
        if not isinstance(value, np.ndarray):  # NumPy returns what it does not recognise as bytes
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


_READERS: dict[str, Callable[[str, int | None], _core.CsrView]] = {
    ".mtx": _read_plain,
    ".mtx.gz": _read_gzip,
    ".npz": _read_npz,
    ".tar.gz": _read_tar,
}
ENDINGS = tuple(_READERS)
