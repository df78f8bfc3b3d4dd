"""The folder that a sweep writes to: one file for each matrix, so that a kill costs at most the matrix in progress.

A file is written under a temporary name, forced to the disk and then renamed. Readers see whole files only, and any
number of processes may write to one folder, since no two files have the same name and no file is ever changed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from warploom.bench import schema
from warploom.errors import FileFormatError, ParameterError, WarploomError

__all__ = ["Part", "StorageError", "Store", "make_folder", "read_facts", "write_table"]

_FACTS = b"warploom"
_UNFINISHED = ".unfinished"
_UNFINISHED_AGE = 24 * 3600.0  # seconds after which no process can still be writing it


class StorageError(WarploomError, OSError):
    """Results cannot be written: the disk is full, or the folder is read-only or not a folder."""


@dataclasses.dataclass(frozen=True)
class Part:
    """The metadata of one file of a store."""

    path: pathlib.Path
    matrix: dict[str, Any]
    """The row of the table of matrices; missing values are `None`."""
    settings: tuple[str, ...]
    environment_key: str
    environment: dict[str, Any]
    written_ns: int
    """Nanoseconds since 1970."""


class Store:
    """Results of sweeps in one folder.

    Parameters
    ----------
    folder : path-like
        Made if it does not exist.

    Raises
    ------
    StorageError
        The folder cannot be made.

    Attributes
    ----------
    broken : dict from str to str
        Names of the files that could not be read so far, and why.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = make_folder(folder)
        self.broken: dict[str, str] = {}
        self._known: dict[str, Part] = {}
        make_folder(self._parts)
        _remove_abandoned(self._parts)

    @property
    def _parts(self) -> pathlib.Path:
        return self.folder / "parts"

    def append(
        self,
        matrix: Mapping[str, Any],
        measurements: Sequence[Mapping[str, Any]],
        environment: Mapping[str, Any],
        *,
        settings: Iterable[str] = (),
    ) -> pathlib.Path:
        """Add the measurements of one matrix, atomically.

        Parameters
        ----------
        matrix : mapping
            A row of `warploom.bench.schema.matrix_columns`.
        measurements : sequence of mappings
            Rows of `warploom.bench.schema.MEASUREMENTS`, for one or more settings. ``environment`` is filled in.
        environment : mapping
            What they were measured on: anything that JSON can represent.
        settings : iterable of str
            Settings that count as done although there may be no row for them.

        Returns
        -------
        pathlib.Path
            The file.

        Raises
        ------
        ParameterError
            A row does not fit its table, or is not of this matrix.
        StorageError
            The file cannot be written. Nothing is left of it.
        """
        _check(matrix, measurements)
        key = schema.environment_key(environment)
        row = schema.table([matrix], schema.matrix_columns(), "matrix").to_pylist()[0]
        rows = schema.table([{**m, "environment": key} for m in measurements], schema.MEASUREMENTS, "measurements")
        facts = {
            "matrix": row,
            "settings": sorted({*settings, *(m["setting"] for m in measurements)}),
            "environment_key": key,
            "environment": dict(environment),
            "written_ns": time.time_ns(),
        }
        path = self._parts / f"{facts['written_ns']:020d}-{uuid.uuid4().hex[:12]}.parquet"
        write_table(rows, path, facts)
        return path

    def parts(self) -> list[Part]:
        """Return what the files hold, in the order in which they were written.

        Files that cannot be read are skipped; `broken` names them.
        """
        names = sorted(path.name for path in self._parts.glob("*.parquet"))
        for name in names:
            if name not in self._known:
                self._read(name)
        found = [self._known[name] for name in names if name in self._known]
        return sorted(found, key=lambda part: (part.written_ns, part.path.name))

    def _read(self, name: str) -> None:
        path = self._parts / name
        try:
            self._known[name] = _part(path, read_facts(path))
        except FileFormatError as error:
            self.broken[name] = str(error)
        else:
            self.broken.pop(name, None)

    def done(self) -> set[tuple[str, str]]:
        """Return the pairs of a matrix and a setting in the folder. Only metadata of new files are read."""
        return {(part.matrix["matrix"], setting) for part in self.parts() for setting in part.settings}

    def __repr__(self) -> str:
        return f"Store({str(self.folder)!r})"


def _part(path: pathlib.Path, facts: Mapping[str, Any]) -> Part:
    """Check what a file says of itself: one that is damaged must not keep the others from being read."""
    kinds = {"matrix": dict, "settings": list, "environment_key": str, "environment": dict, "written_ns": int}
    for name, kind in kinds.items():
        if name not in facts:
            raise FileFormatError(f"{path} lacks '{name}'")
        if not isinstance(facts[name], kind):
            raise FileFormatError(f"{path} is damaged: '{name}' is {facts[name]!r:.60}")
    if not all(isinstance(setting, str) for setting in facts["settings"]):
        raise FileFormatError(f"{path} is damaged: 'settings' are {facts['settings']!r:.60}")
    matrix = facts["matrix"]
    for name, (required, fits) in _fitting_values().items():
        if (required or name in matrix) and not fits(matrix.get(name)):
            raise FileFormatError(f"{path} is damaged: '{name}' of its matrix is {matrix.get(name)!r:.60}")
    return Part(path, **{name: facts[name] for name in kinds} | {"settings": tuple(facts["settings"])})


@functools.cache
def _fitting_values() -> dict[str, tuple[bool, Callable[[Any], bool]]]:
    """Say of each column of the table of matrices whether it has to be there, and which values of JSON fit."""

    def is_text(value: Any) -> bool:
        return isinstance(value, str)

    def is_whole(value: Any) -> bool:
        return type(value) is int and abs(value) < 2**63

    def is_number(value: Any) -> bool:
        return value is None or isinstance(value, float) or (type(value) is int and abs(value) < 2**63)

    def fitting(kind: pa.DataType) -> Callable[[Any], bool]:
        return is_text if pa.types.is_dictionary(kind) else is_whole if pa.types.is_integer(kind) else is_number

    return {column.name: (column.required, fitting(column.type)) for column in schema.matrix_columns()}


def make_folder(folder: str | os.PathLike[str]) -> pathlib.Path:
    """Make a folder and those above it, where they are not there; `StorageError` if that fails."""
    path = pathlib.Path(folder)
    with _storage_errors(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


def _check(matrix: Mapping[str, Any], measurements: Sequence[Mapping[str, Any]]) -> None:
    for row in measurements:
        if row.get("matrix") != matrix.get("matrix"):
            raise ParameterError(
                f"measurements of '{row.get('matrix')}' given with the matrix '{matrix.get('matrix')}'",
                argument="measurements",
            )
        for name, allowed in (("status", schema.STATUSES), ("cache", schema.CACHES)):
            if name in row and row[name] not in allowed:
                known = ", ".join(map(repr, allowed))
                raise ParameterError(f"{name} is one of {known}, got {row.get(name)!r}", argument="measurements")


def write_table(rows: pa.Table, path: pathlib.Path, facts: Mapping[str, Any], **options: Any) -> None:
    """Write a Parquet file atomically, also if there is a power failure.

    Parameters
    ----------
    rows : pyarrow.Table
    path : pathlib.Path
        The file; an existing one is replaced.
    facts : mapping
        Kept as JSON in the file's metadata, with the version of the schema.
    **options
        For `pyarrow.parquet.write_table`.

    Raises
    ------
    StorageError
        It cannot be written. Nothing is left of it.
    """
    text = json.dumps({"version": schema.VERSION, **facts})
    rows = rows.replace_schema_metadata({_FACTS: text})
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, **{"compression": "zstd", "write_page_checksum": True, **options})
    with _storage_errors(path.parent):
        _write_durably(path, memoryview(sink.getvalue()))


def _write_durably(path: pathlib.Path, contents: memoryview) -> None:
    unfinished = path.with_name(f".{path.name}-{uuid.uuid4().hex[:8]}{_UNFINISHED}")
    try:
        with unfinished.open("xb") as file:
            file.write(contents)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: pathlib.Path) -> None:
    """Force the new name to the disk, where the system can do that for a folder."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError:
        pass  # network file systems refuse; the rename itself is done
    finally:
        os.close(descriptor)


def _remove_abandoned(folder: pathlib.Path) -> None:
    for path in folder.glob(f".*{_UNFINISHED}"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _UNFINISHED_AGE:
                path.unlink()


def read_facts(path: pathlib.Path) -> dict[str, Any]:
    """Return what `write_table` has kept in a file's metadata, without reading the rows.

    Raises
    ------
    FileFormatError
        The file is truncated, not Parquet, not warploom's or of another version of the schema.
    """
    try:
        metadata = pq.read_metadata(path).metadata or {}
        facts = json.loads(metadata[_FACTS])
        if not isinstance(facts, dict):
            raise ValueError("its metadata are no JSON object")
    except Exception as error:  # whatever Arrow and JSON make of bytes that they did not expect
        reason = "no metadata of warploom" if isinstance(error, KeyError) else str(error)
        raise FileFormatError(f"{path} is truncated or not a file of measurements: {reason}") from error
    if facts.get("version") != schema.VERSION:
        raise FileFormatError(f"{path} has version {facts.get('version')} of the schema, expected {schema.VERSION}")
    return facts


@contextlib.contextmanager
def _storage_errors(folder: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raised = StorageError(f"cannot write to {folder}: {reason}", argument="folder")
        raised.errno = error.errno
        raise raised from error
