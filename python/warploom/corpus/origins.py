"""Matrices that programs made: finite-element packages, mesh generators, package archives, dictionaries.

The scripts in the repository's folder ``origins`` run those programs and store what they made. A file of a store is
what `numpy.savez` writes, compressed by `lzma`: integer arrays as `encoded` describes, without values, which are drawn
from a seed when a matrix is loaded. A recipe in the index says how a matrix follows from the arrays of its file, so
that one mesh is enough for all the finite elements on it:

``pattern [symmetric]``
    ``shape``, ``lengths`` and ``columns`` of the rows, or with ``symmetric`` those of the upper triangle.
``elements [nodal=N] [edge=N] [facet=N] [interior=N]``
    ``cells``: each row is a triangle or tetrahedron of vertices. The number of unknowns at each vertex, edge (of
    tetrahedra), facet and cell; unknowns are numbered in this order, as scikit-fem does, and coupled within cells.
``elements ... with [nodal=N] ...``
    A saddle point: unknowns of a second field, which are not coupled with each other.
``nearest neighbours=N``
    ``points``, integers, each with an arc to its nearest others.

The index has the SHA-256 of every pattern, and a matrix whose pattern has another is refused.
"""

from __future__ import annotations

import csv
import functools
import hashlib
import importlib.resources
import io
import lzma
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
import scipy.spatial

from warploom.corpus.constructions import _random
from warploom.corpus.constructions._assemble import from_rows
from warploom.corpus.constructions._patterns import Pattern, expand, from_elements, from_lengths
from warploom.corpus.entry import Entry, Progress
from warploom.errors import FileFormatError, ParameterError

__all__ = [
    "SUFFIX",
    "Origin",
    "decoded",
    "digest",
    "encoded",
    "entry",
    "folders",
    "index",
    "make",
    "pack",
    "unpack",
]

SUFFIX = ".npz.xz"
"""Ending of the files of a store."""

_TABLE = "origins.csv"
_ENVIRONMENT = "WARPLOOM_ORIGINS"
_JITTER = 0.001
_MOST_BYTES = 2**32
"""That a file may expand to."""

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Origin:
    """A row of the index."""

    name: str
    """``origins/<name>``."""
    family: str
    kind: str
    """In the words of the SuiteSparse collection."""
    program: str
    """What made it, with versions."""
    summary: str
    file: str
    """Name of its file without the ending; several matrices may have the same."""
    piece: str
    """Folder of the store that the file is in."""
    recipe: str
    rows: int
    cols: int
    nnz: int
    sha256: str
    """See `digest`."""


# ----- The index, and loading -----


@functools.cache
def index() -> dict[str, Origin]:
    """Return what is known about every matrix, by name."""
    text = (importlib.resources.files("warploom.corpus") / _TABLE).read_text(encoding="utf-8")
    numbers = ("rows", "cols", "nnz")
    rows = csv.DictReader(io.StringIO(text))
    parsed: list[dict[str, Any]] = [{key: int(v) if key in numbers else v for key, v in row.items()} for row in rows]
    listed = [Origin(**row) for row in parsed]
    return {origin.name: origin for origin in listed}


def folders() -> list[Path]:
    """Return the folders that are looked through for files: those in ``WARPLOOM_ORIGINS``, separated like ``PATH``."""
    return [Path(folder) for folder in os.environ.get(_ENVIRONMENT, "").split(os.pathsep) if folder]


def entry(name: str) -> Entry:
    """Return the entry of a matrix of the index.

    Parameters
    ----------
    name : str
        A key of `index`.

    Returns
    -------
    Entry
        Loading it raises `FileNotFoundError` where no folder of `folders` has its file, directly or in the folder of
        its piece, and `FileFormatError` where the file is damaged or its pattern is not that of the index.
    """
    origin = index()[name]
    return Entry(
        name=name,
        family=origin.family,
        kind=origin.kind,
        source="origin",
        licence=f"only the pattern is stored; made by {origin.program}",
        rows=origin.rows,
        cols=origin.cols,
        nnz=origin.nnz,
        loader=functools.partial(_load, name),
    )


def _load(name: str, progress: Progress | None = None) -> scipy.sparse.csr_array:
    origin = index()[name]
    path = _path(origin)
    pattern = make(unpack(path), origin.recipe)
    if digest(pattern) != origin.sha256:
        raise FileFormatError(f"{path}: the pattern of '{name}' is not the one that the index has", argument="path")
    return from_rows(pattern.shape, pattern.indptr, pattern.indices)


def _path(origin: Origin) -> Path:
    looked = folders()
    for folder in looked:
        for path in (folder / origin.piece / f"{origin.file}{SUFFIX}", folder / f"{origin.file}{SUFFIX}"):
            if path.is_file():
                return path
    where = ", ".join(map(str, looked)) or f"no folder: {_ENVIRONMENT} is not set"
    raise FileNotFoundError(f"'{origin.name}' is in {origin.piece}/{origin.file}{SUFFIX}; looked in {where}")


# ----- Files -----


def pack(arrays: Arrays) -> bytes:
    """Return the contents of a file.

    Parameters
    ----------
    arrays : mapping from str to ndarray
        Integer arrays: ``shape``, ``lengths`` and ``columns``, or ``cells``, or ``points``.

    Returns
    -------
    bytes
    """
    buffer = io.BytesIO()
    planes: dict[str, Any] = {name: encoded(name, arrays) for name in arrays}
    np.savez(buffer, **planes)
    return lzma.compress(buffer.getvalue(), preset=7)


def unpack(path: str | os.PathLike[str]) -> dict[str, npt.NDArray[Any]]:
    """Read a file.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    dict from str to ndarray
        What `pack` was given.

    Raises
    ------
    FileFormatError
        It is damaged.
    """
    try:
        with lzma.open(path) as file:
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise ValueError("it is too large")
        with np.load(io.BytesIO(text), allow_pickle=False) as stored:
            planes = {name: stored[name] for name in stored.files}
        arrays: dict[str, npt.NDArray[Any]] = {}
        for name in sorted(planes, key=lambda name: name == "columns"):  # columns need the lengths of their rows
            arrays[name] = decoded(name, planes[name], arrays)
    except (lzma.LZMAError, EOFError, KeyError, ValueError, IndexError) as error:
        raise FileFormatError(f"{path}: {' '.join(str(error).split())}", argument="path") from error
    return arrays


def encoded(name: str, arrays: Arrays) -> npt.NDArray[np.uint8]:
    """Turn an integer array into differences that compress well, as four rows of bytes, the lowest first.

    ``columns`` become differences to the column before in their row, the first of a row to that of the row before;
    a two-dimensional array (``cells``, ``points``) has its first column less that of the row before, and its other
    columns less the one to their left where rows ascend, else less that of the row before. Differences are folded:
    0, -1, 1, -2, ... become 0, 1, 2, 3, ...
    """
    array = np.asarray(arrays[name], np.int64)
    if name == "columns":
        difference = np.diff(array, prepend=0)
        starts = _starts(np.asarray(arrays["lengths"], np.int64))
        difference[starts] = np.diff(array[starts], prepend=0)
    elif name == "cells":
        difference = np.diff(array, axis=1, prepend=0)
        difference[:, 0] = np.diff(array[:, 0], prepend=0)
        difference = difference.T.copy()
    elif name == "points":
        difference = np.diff(array, axis=0, prepend=0).T.copy()
    else:
        difference = array
    folded = np.where(difference < 0, -2 * difference - 1, 2 * difference)
    if folded.size and folded.max() >= 2**32:
        raise ValueError(f"{name} has differences beyond 31 bits")
    width = difference.shape[0] if array.ndim == 2 else 0
    planes = folded.ravel().astype("<u4").view(np.uint8).reshape(-1, 4).T
    return np.ascontiguousarray(planes.reshape(4, width, -1) if width else planes)


def decoded(name: str, planes: npt.NDArray[np.uint8], arrays: Arrays) -> npt.NDArray[np.int64]:
    """Undo `encoded`; `arrays` has the lengths of rows if they are their columns."""
    if planes.dtype != np.uint8 or planes.ndim not in (2, 3) or planes.shape[0] != 4:
        raise ValueError(f"{name} is not stored as bytes of integers")
    folded = sum(planes[place].astype(np.int64) << (8 * place) for place in range(4))
    assert not isinstance(folded, int)
    difference = np.where(folded & 1, -(folded >> 1) - 1, folded >> 1)
    if name == "columns":
        return _columns(difference, np.asarray(arrays["lengths"]))
    if name == "cells":
        cells = difference.T.copy()
        cells[:, 0] = np.cumsum(cells[:, 0])
        return np.cumsum(cells, axis=1)
    if name == "points":
        return np.cumsum(difference.T, axis=0)
    return np.asarray(difference)


def _starts(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return (np.cumsum(lengths) - lengths)[lengths > 0]


def _columns(difference: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    if lengths.min(initial=0) < 0 or lengths.sum() != len(difference):
        raise ValueError("columns and lengths of rows do not fit")
    starts = _starts(lengths)
    first = np.cumsum(difference[starts])
    running = np.cumsum(difference)
    return np.asarray(running + np.repeat(first - running[starts], lengths[lengths > 0]))


# ----- Recipes -----


def make(arrays: Arrays, recipe: str) -> Pattern:
    """Make the pattern of a matrix from the arrays of its file.

    Parameters
    ----------
    arrays : mapping from str to ndarray
        See `unpack`.
    recipe : str
        See the module.

    Returns
    -------
    Pattern

    Raises
    ------
    ParameterError
        There is no such recipe.
    FileFormatError
        The arrays are not those that it needs.
    """
    words = recipe.split()
    kind, words = (words[0], words[1:]) if words else ("", [])
    try:
        if kind == "pattern" and words in ([], ["symmetric"]):
            return _stored(arrays, symmetric=bool(words))
        if kind == "elements":
            fields, second = words, None
            if "with" in words:
                fields, second = words[: words.index("with")], _counts(words[words.index("with") + 1 :])
            return _coupled(np.asarray(arrays["cells"]), _counts(fields), second)
        if kind == "nearest" and (found := _numbers(words, ("neighbours",))):
            return _nearest(np.asarray(arrays["points"]), found["neighbours"])
    except KeyError as error:
        raise FileFormatError(f"the recipe '{recipe}' needs the array {error}", argument="recipe") from error
    raise ParameterError(f"'{recipe}' is not a recipe", argument="recipe")


def digest(pattern: Pattern) -> str:
    """Return the SHA-256 of a pattern: its shape, row offsets and columns as little-endian integers of 64 bits."""
    found = hashlib.sha256()
    for array in (pattern.shape, pattern.indptr, pattern.indices):
        found.update(np.ascontiguousarray(array, "<i8").tobytes())
    return found.hexdigest()


def _stored(arrays: Arrays, *, symmetric: bool) -> Pattern:
    rows, cols = (int(size) for size in arrays["shape"])
    lengths, columns = np.asarray(arrays["lengths"]), np.asarray(arrays["columns"])
    if len(lengths) != rows or columns.min(initial=0) < 0 or columns.max(initial=-1) >= cols:
        raise FileFormatError("rows or columns are beyond the shape", argument="recipe")
    if not symmetric:
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        return Pattern((rows, cols), indptr, columns.astype(np.int32))
    row = np.repeat(np.arange(rows), lengths)
    upper = scipy.sparse.csr_array((np.ones(len(row), np.int8), (row, columns)), shape=(rows, cols))
    whole = scipy.sparse.csr_array(upper + upper.T)
    whole.sort_indices()
    return Pattern((rows, cols), whole.indptr, whole.indices)


_WHERE = ("nodal", "edge", "facet", "interior")


def _counts(words: Iterable[str]) -> dict[str, int]:
    return _numbers(words, _WHERE)


def _numbers(words: Iterable[str], known: Iterable[str]) -> dict[str, int]:
    found = {}
    for word in words:
        key, _, number = word.partition("=")
        if key not in known or not number.isdecimal():
            raise ParameterError(f"'{word}' is not a part of a recipe", argument="recipe")
        found[key] = int(number)
    return found


def _coupled(
    cells: npt.NDArray[np.int64], first: Mapping[str, int], second: Mapping[str, int] | None = None
) -> Pattern:
    """Couple the unknowns of each cell; those of the second field are not coupled with each other."""
    vertices = int(cells.max(initial=-1)) + 1
    parts = {"nodal": (cells, vertices), "interior": (np.arange(len(cells))[:, None], len(cells))}
    solid = cells.shape[1] == 4
    used = {where for field in (first, second or {}) for where, count in field.items() if count}
    if "edge" in used and solid:
        parts["edge"] = _entities(cells, 2)
    if "facet" in used:
        parts["facet"] = _entities(cells, cells.shape[1] - 1)
    members, sizes, count = [], [], 0
    boundary = 0
    for field in (first, second or {}):
        for where in _WHERE:
            if not field.get(where):
                continue
            local, number = parts[where]
            members.append(local + count)
            sizes.append(np.full(number, field[where], np.int64))
            count += number
        if field is first:
            boundary = int(sum(s.sum() for s in sizes))
    pattern = expand(from_elements(np.concatenate(members, axis=1), count), np.concatenate(sizes))
    if second is None:
        return pattern
    row = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    kept = (row < boundary) | (pattern.indices < boundary)
    return from_lengths(pattern.shape, np.bincount(row[kept], minlength=pattern.shape[0]), pattern.indices[kept])


def _entities(cells: npt.NDArray[np.int64], size: int) -> tuple[npt.NDArray[np.int64], int]:
    """Return the edges or facets of each cell, numbered by their ascending vertices, and how many there are."""
    ordered = np.sort(cells, axis=1)
    width = cells.shape[1]
    chosen = [c for c in np.ndindex(*(width,) * size) if list(c) == sorted(set(c))]
    tuples = np.concatenate([ordered[:, list(c)] for c in chosen])
    order = np.lexsort(tuples.T[::-1])
    new = np.ones(len(order), bool)
    new[1:] = (tuples[order[1:]] != tuples[order[:-1]]).any(axis=1)
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(new) - 1
    return number.reshape(len(chosen), -1).T, int(new.sum())


def _nearest(points: npt.NDArray[np.int64], neighbours: int) -> Pattern:
    # Equal distances would leave the choice to the library: each coordinate is moved by a little of its own.
    moved = np.stack(
        [
            axis + _random.uniform(1, 0.0, _JITTER, len(points), stream=20 + number)
            for number, axis in enumerate(points.T.astype(np.float64))
        ],
        axis=1,
    )
    _, nearest = scipy.spatial.cKDTree(moved).query(moved, k=neighbours + 1, workers=-1)
    others = nearest != np.arange(len(points))[:, None]
    lengths = np.full(len(points), neighbours)
    return from_lengths((len(points), len(points)), lengths, nearest[others])
