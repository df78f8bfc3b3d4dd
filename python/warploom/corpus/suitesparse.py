"""The SuiteSparse collection: its index, which is part of the package, and downloads.

The site publishes no checksums, and its links lead to a server without encryption. An archive is accepted if
it is intact, by the CRC that gzip keeps, and its matrix has the size that the index gives; its SHA-256 is kept beside
it and compared whenever it is used again. A checksum from another source can be passed to `download`.
"""

from __future__ import annotations

import csv
import fnmatch
import functools
import gzip
import hashlib
import importlib.resources
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import scipy.sparse

import warploom.io
from warploom.corpus import _transfer
from warploom.corpus.entry import COLLECTION_LICENCE, Entry, Progress
from warploom.corpus.names import closest
from warploom.errors import DownloadError, FileFormatError, IndexOverflowError, ParameterError

__all__ = ["BASE_URLS", "Record", "cached", "download", "entry", "index", "load", "names", "search"]

BASE_URLS = ("https://suitesparse-collection-website.herokuapp.com", "https://sparse.tamu.edu")
"""Where the collection is, in the order in which they are tried: the first is what the site's own links name."""

_Range = tuple[int | None, int | None]


class Record(NamedTuple):
    """A row of the index."""

    name: str
    group: str
    rows: int
    cols: int
    nnz: int
    """Entries that are not zero, symmetric storage expanded."""
    explicit_zeros: int
    """Stored entries that are zero, beyond `nnz`; some files have them, some do not."""
    kind: str
    structure: str
    """``symmetric``, ``skew-symmetric``, ``Hermitian``, ``unsymmetric`` or ``rectangular``."""
    pattern_symmetry: float
    """Share of the entries off the diagonal that have a counterpart."""
    values: str
    """``real``, ``integer``, ``binary`` or ``complex``."""

    @property
    def full_name(self) -> str:
        """Group and name, such as ``HB/dwt_361``."""
        return f"{self.group}/{self.name}"


@functools.cache
def index() -> dict[str, Record]:
    """Read the published index of the collection.

    Returns
    -------
    dict of str to Record
        By full name, such as ``HB/dwt_361``.
    """
    packed = importlib.resources.files("warploom.corpus").joinpath("suitesparse-index.csv.gz").read_bytes()
    records = (_record(row) for row in csv.DictReader(gzip.decompress(packed).decode().splitlines()))
    return {record.full_name: record for record in records}


def _record(row: dict[str, str]) -> Record:
    numbers = {column: int(row[column]) for column in ("rows", "cols", "nnz", "explicit_zeros")}
    texts = {column: row[column] for column in ("name", "group", "kind", "structure", "values")}
    return Record(pattern_symmetry=float(row["pattern_symmetry"]), **numbers, **texts)  # type: ignore[arg-type]


def names() -> list[str]:
    """List the full names, such as ``HB/dwt_361``."""
    return list(index())


def entry(name: str, **options: object) -> Entry:
    """Return the entry of a matrix; nothing is downloaded before it is loaded.

    Parameters
    ----------
    name : str
        Group and name, such as ``HB/dwt_361``.
    **options
        For `download`, when the matrix is loaded.

    Raises
    ------
    ParameterError
        The collection has no such matrix; the message lists those with the most similar names.
    """
    record = _find(name)
    return Entry(
        name=record.full_name,
        family=record.group,
        kind=record.kind,
        source="suitesparse",
        licence=COLLECTION_LICENCE,
        rows=record.rows,
        cols=record.cols,
        nnz=record.nnz,
        in_collection=True,
        loader=functools.partial(_load_entry, record.full_name, options),
    )


def search(
    name: str = "*",
    *,
    group: str = "*",
    kind: str = "*",
    structure: str = "*",
    values: str | None = None,
    rows: _Range = (None, None),
    cols: _Range = (None, None),
    nnz: _Range = (None, None),
    square: bool | None = None,
    **options: object,
) -> list[Entry]:
    """Find matrices of the collection; nothing is downloaded before one is loaded.

    Parameters
    ----------
    name, group, kind, structure : str
        Patterns with ``*`` and ``?``, upper and lower case alike: ``kind="*circuit*"``.
    values : str, optional
        Another pattern, of ``real``, ``integer``, ``binary`` and ``complex``; all but complex, which cannot be
        multiplied, unless given.
    rows, cols, nnz : (int or None, int or None)
        Minimum and maximum, both included; None for no limit.
    square : bool, optional
        Only square matrices, or only those that are not.
    **options
        For `download`, when a matrix is loaded.

    Returns
    -------
    list of Entry
        By group and name.
    """
    patterns = {"name": name, "group": group, "kind": kind, "structure": structure}
    ranges = {"rows": rows, "cols": cols, "nnz": nnz}
    found = [
        record
        for record in index().values()
        if all(_matches(getattr(record, field), pattern) for field, pattern in patterns.items())
        and (record.values != "complex" if values is None else _matches(record.values, values))
        and all(_lies_in(getattr(record, field), limits, field) for field, limits in ranges.items())
        and (square is None or square == (record.rows == record.cols))
    ]
    return [entry(record.full_name, **options) for record in sorted(found, key=lambda record: record.full_name.lower())]


def _matches(text: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(text.lower(), pattern.lower())


def _lies_in(value: int, limits: _Range, argument: str) -> bool:
    try:
        least, most = limits
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{argument} must be (minimum, maximum), got {limits!r}", argument=argument) from error
    return (least is None or value >= least) and (most is None or value <= most)


def _find(name: str) -> Record:
    record = index().get(name)
    if record is None:
        raise ParameterError(f"the SuiteSparse collection has no '{name}'{closest(name, index())}", argument="name")
    return record


# ----- files -----


def cached(name: str, cache: str | os.PathLike[str] | None = None) -> Path:
    """Return where in the cache the archive of a matrix is, or would be.

    Parameters
    ----------
    name : str
        Group and name.
    cache : path-like, optional
        The folder for all that is downloaded: the environment variable ``WARPLOOM_CACHE``, else the user's cache
        directory, by default.
    """
    record = _find(name)
    root = _transfer.cache_directory() if cache is None else Path(cache)
    return root / "suitesparse" / "MM" / record.group / f"{record.name}.tar.gz"


def download(
    name: str,
    cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    base_url: str | Sequence[str] = BASE_URLS,
    *,
    sha256: str | None = None,
    attempts: int = 5,
    backoff: float = 1.0,
    timeout: float = 30.0,
) -> Path:
    """Download a matrix, or find it in the cache.

    Parameters
    ----------
    name : str
        Group and name, such as ``HB/dwt_361``.
    cache : path-like, optional
        The folder for all that is downloaded: the environment variable ``WARPLOOM_CACHE``, else the user's cache
        directory, by default. Several processes may share it.
    progress : callable, optional
        Called with bytes done and bytes expected (None if not known).
    base_url : str or sequence of str
        Sites with the layout ``MM/Group/name.tar.gz``, tried in turn.
    sha256 : str, optional
        The checksum that the archive must have, in hexadecimal.
    attempts : int
        Per site, while nothing more arrives; a transfer that was cut is continued where it ended.
    backoff : float
        Seconds before the second attempt, doubled before each further one.
    timeout : float
        Seconds without a byte after which the attempt ends.

    Returns
    -------
    pathlib.Path
        Of the archive, intact and with a matrix of the size that the index gives. An archive whose SHA-256 is not
        the one it had when it was downloaded is downloaded again.

    Raises
    ------
    ParameterError
        The collection has no such matrix, or no site is given.
    DownloadError
        No site answers or has it, what they have is not the matrix, or the cache cannot be written. What has
        arrived is kept, and the next call continues there.
    """
    record = _find(name)
    target = cached(name, cache)
    sha256 = sha256.lower() if sha256 else None
    if _is_intact(target, sha256):
        return target
    bases = [base_url] if isinstance(base_url, str) else list(base_url)
    if not bases:
        raise ParameterError("base_url must name a site", argument="base_url")
    policy = _transfer.Policy(attempts=attempts, backoff=backoff, timeout=timeout)
    with _transfer.exclusive(target):
        if _is_intact(target, sha256):  # another process has downloaded it in the meantime
            return target
        problems: list[DownloadError] = []
        for base in bases:
            url = f"{base.rstrip('/')}/MM/{record.group}/{record.name}.tar.gz"
            try:
                _fetch(record, url, target, sha256, policy, progress)
                return target
            except _transfer.CacheError:
                raise
            except DownloadError as error:
                problems.append(error)
    raise DownloadError("; ".join(map(str, problems)), argument="name") from problems[-1]


def _fetch(
    record: Record,
    url: str,
    target: Path,
    sha256: str | None,
    policy: _transfer.Policy,
    progress: Progress | None,
) -> None:
    part = _transfer.fetch(url, target, policy, progress)
    try:
        _check_archive(record, part)
        digest = _sha256(part)
        if sha256 is not None and digest != sha256:
            raise FileFormatError(f"its SHA-256 is {digest}, not {sha256}", argument="sha256")
    except (FileFormatError, IndexOverflowError) as error:
        _transfer.discard(target)
        raise DownloadError(f"{url} is not the archive of {record.full_name}: {error}", argument="name") from error
    _transfer.keep(part, target, digest)


def _is_intact(path: Path, sha256: str | None) -> bool:
    """Compare an archive in the cache with the checksum that it had when it was downloaded."""
    if not path.is_file():
        return False
    recorded = _transfer.recorded_digest(path)
    return recorded is not None and _sha256(path) == recorded and sha256 in (None, recorded)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _check_archive(record: Record, path: Path) -> None:
    rows, cols, *stored = warploom.io.archive_sizes(path)
    if (rows, cols) != (record.rows, record.cols):
        raise FileFormatError(
            f"{path}: it has {rows} rows and {cols} columns, the index says {record.rows} and {record.cols}",
            argument="path",
        )
    if stored and stored[0] > record.nnz + record.explicit_zeros:
        raise FileFormatError(
            f"{path}: it has {stored[0]} entries, the index says {record.nnz} and {record.explicit_zeros} zeros",
            argument="path",
        )


def load(name: str, **options: object) -> scipy.sparse.csr_array:
    """Download a matrix, unless it is in the cache, and read it.

    Parameters
    ----------
    name : str
        Group and name, such as ``HB/dwt_361``.
    **options
        For `download`.

    Raises
    ------
    ParameterError
        The collection has no such matrix.
    DownloadError
        It could not be downloaded.
    FileFormatError
        The matrix is not the one that the index describes.
    DtypeError
        It is complex.
    """
    record = _find(name)
    path = download(name, **options)  # type: ignore[arg-type]
    matrix = warploom.io.load(path)
    if not record.nnz <= matrix.nnz <= record.nnz + record.explicit_zeros:
        raise FileFormatError(
            f"{path}: it has {matrix.nnz} entries, the index says {record.nnz} and {record.explicit_zeros} zeros",
            argument="path",
        )
    return matrix


def _load_entry(name: str, options: dict[str, object], progress: Progress | None) -> scipy.sparse.csr_array:
    return load(name, **{"progress": progress, **options})
