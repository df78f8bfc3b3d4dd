"""Matrices in a folder."""

from __future__ import annotations

import collections
import csv
import functools
import os
from collections.abc import Iterator
from pathlib import Path

import scipy.sparse

import warploom.io
from warploom.corpus import names
from warploom.corpus.entry import COLLECTION_LICENCE, UNKNOWN_LICENCE, Entry, Progress
from warploom.errors import FileFormatError, ParameterError

__all__ = ["file", "folder", "listing"]

_MANIFEST = "manifest.csv"


def folder(path: str | os.PathLike[str]) -> list[Entry]:
    """List the matrices below a folder, without opening them.

    Parameters
    ----------
    path : str or path-like
        Searched for files that `warploom.load` reads: ``.mtx``, ``.mtx.gz``, ``.npz`` and the ``.tar.gz`` of the
        SuiteSparse collection.

    Returns
    -------
    list of Entry
        In the order of their paths. ``Group__name.npz`` and ``Group/name.npz`` are called ``Group/name``, and so on:
        the path without the ending unless that would make two files the same, or be read as something else. A
        ``manifest.csv`` in the folder gives the kind, the size, the licence and the group of the files that it lists;
        its columns ``file``, ``name``, ``group``, ``kind``, ``rows``, ``cols``, ``nnz``, ``licence`` and
        ``in_suitesparse_index`` (``yes`` for matrices of the SuiteSparse collection) are read, as far as they are
        there.

    Raises
    ------
    FileNotFoundError, NotADirectoryError
        There is no such folder.
    PermissionError
        A folder in it cannot be read.
    FileFormatError
        The manifest cannot be read. Unreadable matrices are found when they are loaded: the error names the file.
    """
    return list(listing(path).values())


def listing(path: str | os.PathLike[str]) -> dict[str, Entry]:
    """List the same matrices by the paths of their files within the folder."""
    root = Path(path)
    if not root.is_dir():
        kind = NotADirectoryError if root.exists() else FileNotFoundError
        raise kind(f"{root} is not a folder")
    paths = sorted(_files(root))
    manifest = _read_manifest(root / _MANIFEST)
    taken = collections.Counter(_short_name(root, path) for path in paths)
    entries = {}
    for found in paths:
        short = _short_name(root, found)
        within = found.relative_to(root).as_posix()
        clear = taken[short] == 1 and names.is_plain(short) and warploom.io.ending(short) is None
        entries[within] = _entry(found, short if clear else within, short, manifest.get(found.name, {}))
    return entries


def file(path: str | os.PathLike[str]) -> Entry:
    """Return the entry of one file, called by its path.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ParameterError
        The name has none of the endings that are read.
    """
    found = Path(path)
    if not found.is_file():
        raise FileNotFoundError(f"{found} is not a file")
    if warploom.io.ending(found.name) is None:
        raise ParameterError(f"{found}: the name must end in one of {', '.join(warploom.io.ENDINGS)}", argument="name")
    return _entry(found, os.fspath(path), _short_name(found.parent, found), {})


def _files(root: Path) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        raise error

    for directory, _, files in os.walk(root, onerror=fail):
        yield from (Path(directory, name) for name in files if warploom.io.ending(name) is not None)


def _short_name(root: Path, path: Path) -> str:
    without = path.name.removesuffix(path.name[-len(warploom.io.ending(path.name) or "") :])
    group, separator, name = without.partition("__")
    if separator and group and name:
        return f"{group}/{name}"
    return (path.relative_to(root).parent / without).as_posix()


def _entry(path: Path, name: str, short: str, row: dict[str, str]) -> Entry:
    in_collection = row.get("in_suitesparse_index") == "yes"
    group = row.get("group") or (short.partition("/")[0] if "/" in short else path.absolute().parent.name)
    return Entry(
        name=name,
        family=group,
        kind=row.get("kind", ""),
        source="folder",
        licence=row.get("licence") or (COLLECTION_LICENCE if in_collection else UNKNOWN_LICENCE),
        rows=_number(row, "rows"),
        cols=_number(row, "cols"),
        nnz=_number(row, "nnz"),
        in_collection=in_collection,
        loader=functools.partial(_load, os.fspath(path.absolute())),
    )


def _number(row: dict[str, str], column: str) -> int | None:
    value = row.get(column, "")
    return int(value) if value.isdigit() else None


def _load(path: str, progress: Progress | None) -> scipy.sparse.csr_array:
    return warploom.io.load(path)


def _read_manifest(path: Path) -> dict[str, dict[str, str]]:
    """Read what is known of each file, by the name of the file."""
    if not path.is_file():
        return {}
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            rows = [{key: value for key, value in row.items() if key and value} for row in csv.DictReader(stream)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(f"{path}: {error}", argument="path") from error
    if rows and not {"name", "group", "kind"} <= rows[0].keys():
        raise FileFormatError(f"{path}: the columns name, group and kind are needed", argument="path")
    return {row.get("file") or f"{row.get('group', '')}__{row.get('name', '')}.npz": row for row in rows}
