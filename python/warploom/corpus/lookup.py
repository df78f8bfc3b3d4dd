"""From a name to a matrix."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import scipy.sparse

import warploom.io
from warploom.corpus import constructions, names, origins, suitesparse
from warploom.corpus.entry import Entry, Progress
from warploom.corpus.folder import file, listing
from warploom.errors import ParameterError

__all__ = ["exact_constructions", "find", "find_all", "load"]

_EXACT = ("collection", "collection_grids")


def find(
    name: str,
    *,
    folders: Iterable[str | os.PathLike[str]] = (),
    prefer_constructions: bool = False,
    **options: Any,
) -> Entry:
    """Find a matrix by its name.

    Parameters
    ----------
    name : str
        A construction, ``rmat(scale=15,seed=3)``; a matrix of the SuiteSparse collection, ``HB/dwt_361``; one that a
        program made, ``origins/debian-depends`` (see `warploom.corpus.origins`); the path of a file; or the name that
        a file has in one of the folders. ``.T`` behind it transposes, ``[a:b]`` takes rows a to b - 1, ``.shuffled``
        and ``.half`` put rows and columns in another order, ``.reordered(rcm)`` in one that finds locality, from left
        to right: ``HB/west0479.T[0:100]``.
    folders : iterable of path-like
        Folders to look in, after those in the environment variable ``WARPLOOM_MATRICES`` (separated like ``PATH``).
    prefer_constructions : bool
        Make matrices of the collection that follow from a definition, instead of downloading them, if they are
        not in a folder. The order of rows may differ from the collection's.
    **options
        For `warploom.corpus.suitesparse.download`, when the matrix is loaded.

    Returns
    -------
    Entry

    Raises
    ------
    ParameterError
        There is no such matrix; the message lists the most similar names.
    FileNotFoundError
        One of the folders does not exist.

    Examples
    --------
    >>> from warploom import corpus
    >>> entry = corpus.find("grid2d(nx=5,ny=4)")
    >>> entry.source, entry.load().shape
    ('construction', (20, 20))
    """
    (entry,) = find_all([name], folders=folders, prefer_constructions=prefer_constructions, **options)
    return entry


def find_all(
    wanted: Iterable[str],
    *,
    folders: Iterable[str | os.PathLike[str]] = (),
    prefer_constructions: bool = False,
    **options: Any,
) -> list[Entry]:
    """Find several matrices: as `find` does, but every folder is listed once."""
    roots = [*_folders_of_environment(), *folders]
    listings = functools.cache(lambda: [_by_either_name(listing(root)) for root in roots])
    entries = []
    for name in wanted:
        parsed = names.parse(name)
        if isinstance(parsed.base, names.Call):
            entry = _constructed(parsed.base)
        else:
            entry = _named(parsed.base, listings, prefer_constructions, options)
        entries.append(entry.after(parsed.steps))
    return entries


def load(name: str, *, progress: Progress | None = None, **options: Any) -> scipy.sparse.csr_array:
    """Make, read or download a matrix.

    Parameters
    ----------
    name : str
        See `find`.
    progress : callable, optional
        Called with bytes done and bytes expected while something is downloaded.
    **options
        Those of `find`.

    Returns
    -------
    scipy.sparse.csr_array
        float64, or float32 if a file says so.

    Raises
    ------
    ParameterError, FileFormatError, DownloadError
        See `find` and `Entry.load`.

    Examples
    --------
    >>> from warploom import corpus
    >>> A = corpus.load("HB/dwt_361")  # doctest: +SKIP
    """
    return find(name, **options).load(progress)


def exact_constructions() -> dict[str, str]:
    """Return the constructions that make matrices of the collection exactly, by their full name."""
    found: dict[str, str] = {}
    for name in _EXACT:
        module = f"{constructions.__name__}.{name}"
        try:
            found |= importlib.import_module(module).COLLECTION
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
    return found


def _named(
    name: str, listings: Callable[[], list[dict[str, Entry]]], prefer_constructions: bool, options: Mapping[str, Any]
) -> Entry:
    if warploom.io.ending(name) is not None and Path(name).is_file():
        return file(name)
    for entries in listings():
        if name in entries:
            return entries[name]
    if prefer_constructions and name in (exact := exact_constructions()):
        return _exact(name, exact[name])
    if name in suitesparse.index():
        return suitesparse.entry(name, **options)
    if name in origins.index():
        return origins.entry(name)
    raise _unknown(name, (entry.name for entries in listings() for entry in entries.values()))


def _by_either_name(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Add the names of entries to the paths of their files."""
    return {entry.name: entry for entry in reversed(list(entries.values()))} | dict(entries)


def _folders_of_environment() -> Iterator[str]:
    return filter(None, os.environ.get("WARPLOOM_MATRICES", "").split(os.pathsep))


def _constructed(call: names.Call) -> Entry:
    construction = constructions.find(call.construction)
    return Entry(
        name=str(call),
        family=construction.family,
        kind=construction.kind,
        source="construction",
        licence="",
        rows=None,
        cols=None,
        nnz=None,
        loader=functools.partial(_construct, call.construction, dict(call.parameters)),
    )


def _construct(name: str, parameters: Mapping[str, Any], progress: Progress | None) -> scipy.sparse.csr_array:
    return constructions.construct(name, **parameters)


def _exact(name: str, text: str) -> Entry:
    """Describe a matrix of the collection as the index does, and load it by its construction."""
    call = names.parse(text).base
    assert isinstance(call, names.Call)
    loader = functools.partial(_construct, call.construction, dict(call.parameters))
    return replace(suitesparse.entry(name), source="construction", licence="", loader=loader)


def _unknown(name: str, in_folders: Iterable[str]) -> ParameterError:
    if name in constructions.names():
        given = (
            key if value is inspect.Parameter.empty else f"{key}={value!r}"
            for key, value in constructions.find(name).defaults.items()
        )
        return ParameterError(
            f"'{name}' is a construction and takes parameters: {name}({', '.join(given)})", argument="name"
        )
    hint = names.closest(name, [*in_folders, *suitesparse.index(), *origins.index(), *constructions.names()])
    if Path(name).is_dir():
        hint = "; it is a folder, whose matrices corpus.folder lists"
    return ParameterError(f"there is no matrix '{name}'{hint}", argument="name")
