"""Measurements in memory: read from stores and merged folders, merged, and written in the form that is shipped."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import pathlib
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from warploom import _data_package
from warploom.bench import schema
from warploom.bench.store import Part, Store, make_folder, read_facts, write_table
from warploom.errors import FileFormatError, ParameterError

__all__ = ["Measurements", "folder_of", "group_ids", "merge", "origin_of", "part_of", "shipped"]

_MEASUREMENTS, _MATRICES = "measurements.parquet", "matrices.parquet"
_SIZE = ("rows", "cols", "nnz")
_MOST_IDS = 2**62

# Neighbours in this order have similar times and equal names, which compresses well: of several orders, this one gave
# the smallest file.
_SORTED_BY = ("environment", "run", "matrix", "setting", "candidate", "cache")
_COMPRESSION: dict[str, Any] = {"compression_level": 15, "row_group_size": 1 << 20}
# Numbers of bytes hardly repeat, so that a dictionary of them is larger than they are.
_WITH_DICTIONARY = [column.name for column in schema.MEASUREMENTS if column.name != "bytes"]


def shipped() -> list[str]:
    """Return the names of the measurements in the package warploom-data, for `Measurements.load`; none without it."""
    folder = _data_package.folder()
    return sorted(path.parent.name for path in folder.glob(f"*/{_MEASUREMENTS}")) if folder else []


def folder_of(source: str | os.PathLike[str]) -> pathlib.Path:
    """Return the folder of the shipped measurements of that name, or else the path itself."""
    return _data_package.find(source, _MEASUREMENTS) or pathlib.Path(source)


def part_of(names: pd.Series[Any]) -> NDArray[np.str_]:
    """Return what matrices are, by their names: ``"matrix"``, ``"transpose"`` or ``"block"``, one of rows."""
    text = names.astype(str)
    return np.select([text.str.endswith("]"), text.str.endswith(".T")], ["block", "transpose"], "matrix")


def origin_of(sources: pd.Series[Any]) -> NDArray[np.str_]:
    """Return what `warploom.corpus.Entry.origin` says of matrices, by the column ``source`` of their table."""
    text = sources.astype(str)
    return np.select([text == "construction", text == "origin"], ["constructed", "real by origin"], "real")


@dataclasses.dataclass
class Measurements:
    """The tables of one or more sweeps.

    Parameters
    ----------
    measurements : pandas.DataFrame
        Columns as in `warploom.bench.schema.MEASUREMENTS`; those of strings are categorical.
    matrices : pandas.DataFrame
        Columns as in `warploom.bench.schema.matrix_columns`, one row for each matrix.
    environments : dict
        What was measured on, by the keys in the column ``environment``.
    skipped : dict from str to str
        Files that could not be read, and why.
    """

    measurements: pd.DataFrame
    matrices: pd.DataFrame
    environments: dict[str, dict[str, Any]]
    skipped: dict[str, str] = dataclasses.field(default_factory=dict)
    _by_setting: tuple[pd.DataFrame, pd.DataFrame, dict[Any, NDArray[np.int64]]] | None = dataclasses.field(
        default=None, init=False, repr=False, compare=False
    )

    @classmethod
    def load(cls, *sources: str | os.PathLike[str]) -> Measurements:
        """Read measurements.

        Where several sources, or several files of a store, have the same measurement (equal matrix, setting, cache,
        candidate, run and environment), the later one is kept: sources in the order given, files in the order written.
        A candidate that failed is superseded by its later times, and the other way round.

        Parameters
        ----------
        *sources : str or path-like
            Each is the folder of a `Store`, a folder written by `save`, or one of `shipped()` (to read a folder of
            that name, write ``./name``).

        Returns
        -------
        Measurements
            Files of a store that cannot be read are skipped with a warning and named in `skipped`.

        Raises
        ------
        ParameterError
            There is nothing of that name, or matrices of the same name differ in rows, columns or nonzeros.
        MissingDataError
            There is nothing of that name, and the package warploom-data is not installed.
        FileFormatError
            A merged folder cannot be read.

        Examples
        --------
        >>> from warploom.bench import Measurements
        >>> measured = Measurements.load("h200").only()  # without transposes and blocks of rows
        >>> f"{len(measured.matrices):,} matrices"
        '2,906 matrices'
        """
        if not sources:
            raise ParameterError("no measurements given", argument="sources")
        read = [_read(source) for source in sources]
        skipped = {name: reason for pieces in read for name, reason in pieces.skipped.items()}
        if skipped:
            listed = "\n".join(f"  {reason}" for reason in skipped.values())
            warnings.warn(f"{len(skipped)} files of measurements were skipped:\n{listed}", stacklevel=2)
        tables = [table for pieces in read for table in pieces.tables]
        loaded = cls(
            _frame(tables),
            _merged_matrices([frame for pieces in read for frame in pieces.matrices]),
            {key: value for pieces in read for key, value in pieces.environments.items()},
            skipped,
        )
        if len(read) > 1 or not read[0].is_merged:
            order = np.repeat(np.arange(len(tables)), np.array([len(table) for table in tables], dtype=np.int64))
            loaded.measurements = _latest(loaded.measurements, order)
        return loaded

    def only(self, *, transposes: bool = False, blocks: bool = False) -> Measurements:
        """Return the measurements of whole matrices as they are.

        Sweeps measure fewer candidates on transposes (names with ``.T`` at the end) and blocks of rows (``[a:b]``), and
        there are many of them: tables over all would describe neither.

        Parameters
        ----------
        transposes, blocks : bool
            Whether to keep those too.
        """
        wanted = ["matrix"] + ["transpose"] * transposes + ["block"] * blocks
        keep = np.isin(part_of(self.matrices["matrix"]), wanted)
        if keep.all():
            return self
        kept = self.measurements["matrix"].isin(set(self.matrices["matrix"][keep]))
        return Measurements(self.measurements[kept], self.matrices[keep], self.environments, self.skipped)

    def save(self, folder: str | os.PathLike[str]) -> int:
        """Write the merged form: sorted and compressed, with times rounded to `schema.SIGNIFICANT_DIGITS`.

        Parameters
        ----------
        folder : path-like
            Made if it does not exist; ``measurements.parquet`` and ``matrices.parquet`` in it are replaced.

        Returns
        -------
        int
            Bytes of both files.

        Raises
        ------
        StorageError
            A file cannot be written.
        """
        folder = make_folder(folder)
        rows = sort(self.measurements, _SORTED_BY)
        rows = rows.assign(
            **{name: schema.round_times(rows[name], digits) for name, digits in schema.SIGNIFICANT_DIGITS.items()}
        )
        matrices = self.matrices.sort_values("matrix")
        times = [c.name for c in schema.matrix_columns() if c.unit in ("s", "ms")]
        matrices = matrices.assign(**{name: schema.round_times(matrices[name], 3) for name in times})
        facts = {"environments": self.environments}
        paths = folder / _MEASUREMENTS, folder / _MATRICES
        write_table(_arrow(matrices, schema.matrix_columns()), paths[1], facts, **_COMPRESSION)
        write_table(_arrow(rows, schema.MEASUREMENTS), paths[0], facts, use_dictionary=_WITH_DICTIONARY, **_COMPRESSION)
        return sum(path.stat().st_size for path in paths)

    def select(self, **values: str | int | Sequence[str] | Sequence[int]) -> Measurements:
        """Return the measurements whose columns have these values, and their matrices and environments.

        Parameters
        ----------
        **values
            Columns of the measurements, each with one value or several, such as ``cache="cold", run=0``.

        Raises
        ------
        ParameterError
            There is no such column.
        """
        keep = np.ones(len(self.measurements), dtype=bool)
        for name, value in values.items():
            if name not in self.measurements:
                raise ParameterError(f"measurements have no column '{name}'", argument=name)
            wanted = [value] if isinstance(value, str | int) else list(value)
            keep &= self.measurements[name].isin(wanted).to_numpy()
        rows = self.measurements[keep]
        names = set(rows["matrix"].unique())
        keys = set(rows["environment"].unique())
        return Measurements(
            rows,
            self.matrices[self.matrices["matrix"].isin(names)],
            {key: value for key, value in self.environments.items() if key in keys},
        )

    def timed(self, run: int = 0) -> pd.DataFrame:
        """Return the rows of one run that have a time: ``ok``, and the vendor's with ``rounded sums``."""
        rows = self.measurements
        is_timed = rows["status"].isin(("ok", "rounded sums"))
        return rows[is_timed & (rows["run"] == run) & rows["median_us"].notna()]

    def timed_in(self, setting: str, cache: str) -> pd.DataFrame:
        """Return the rows of the first run that have a time in one setting; quick when asked for again and again."""
        if self._by_setting is None or self._by_setting[0] is not self.measurements:
            rows = self.timed()
            places = dict(rows.groupby(["setting", "cache"], observed=True).indices)
            self._by_setting = (self.measurements, rows, places)
        _, rows, places = self._by_setting
        return rows.take(places.get((setting, cache), np.array([], dtype=np.int64)))

    def __len__(self) -> int:
        """Return the number of measurements."""
        return len(self.measurements)

    def __repr__(self) -> str:
        return (
            f"Measurements({len(self):,} of {len(self.matrices):,} matrices in "
            f"{self.measurements['setting'].nunique()} settings, {len(self.environments)} environments)"
        )


def merge(sources: Iterable[str | os.PathLike[str]], output: str | os.PathLike[str]) -> Measurements:
    """Read measurements, as `Measurements.load` does, and write them merged, as `Measurements.save` does.

    Parameters
    ----------
    sources : iterable of str or path-like
        Stores, merged folders and names of shipped measurements.
    output : path-like
        The folder for the merged form.

    Returns
    -------
    Measurements

    Raises
    ------
    ParameterError, FileFormatError, StorageError
        As the two do.
    """
    loaded = Measurements.load(*sources)
    loaded.save(output)
    return loaded


@dataclasses.dataclass
class _Pieces:
    """What one source holds, oldest first."""

    tables: list[pa.Table]
    matrices: list[pd.DataFrame]
    environments: dict[str, dict[str, Any]]
    skipped: dict[str, str]
    is_merged: bool
    """Whether no two measurements are equal."""


def _read(source: str | os.PathLike[str]) -> _Pieces:
    folder = folder_of(source)
    if (folder / _MEASUREMENTS).exists():
        return _read_merged(folder)
    if (folder / "parts").is_dir():
        return _read_store(folder)
    if not shipped() and not folder.exists():
        raise _data_package.missing(f"'{source}' is no folder, and measurements that have a name are not installed")
    names = ", ".join(shipped()) or "none"
    raise ParameterError(
        f"'{source}' is neither a folder of measurements nor the name of shipped ones ({names})", argument="sources"
    )


def read_matrices(folder: str | os.PathLike[str]) -> pd.DataFrame:
    """Return the table of matrices of the merged form.

    Raises
    ------
    FileFormatError
        It is not one.
    """
    path = pathlib.Path(folder) / _MATRICES
    read_facts(path)
    return _plain_text(_read_rows(path).to_pandas())


def set_matrix_column(folder: str | os.PathLike[str], name: str, values: NDArray[np.float64]) -> None:
    """Add or replace numbers in the table of matrices of the merged form, in the order of `read_matrices`.

    Measurements, environments and other columns stay. NaN is a missing value.

    Raises
    ------
    FileFormatError
        It is not the merged form.
    StorageError
        It cannot be written.
    """
    path = pathlib.Path(folder) / _MATRICES
    facts = {key: value for key, value in read_facts(path).items() if key != "version"}
    table = _read_rows(path)
    column = pa.array(values, pa.float64(), from_pandas=True)
    position = table.schema.get_field_index(name)
    table = table.append_column(name, column) if position < 0 else table.set_column(position, name, column)
    write_table(table, path, facts, **_COMPRESSION)


def _read_merged(folder: pathlib.Path) -> _Pieces:
    environments = read_facts(folder / _MEASUREMENTS).get("environments")
    if not isinstance(environments, dict):
        raise FileFormatError(f"{folder / _MEASUREMENTS} is damaged: it lacks 'environments'")
    read_facts(folder / _MATRICES)
    table = _read_rows(folder / _MATRICES)
    try:
        matrices = _plain_text(table.to_pandas())
        if missing := {"matrix", *_SIZE} - {*matrices}:
            raise ValueError(f"it lacks the columns {', '.join(sorted(missing))}")
    except Exception as error:  # whatever Arrow and pandas make of columns that they did not expect
        raise FileFormatError(f"{folder / _MATRICES} is damaged: {error}") from error
    return _Pieces([_read_measurements(folder / _MEASUREMENTS)], [matrices], environments, {}, is_merged=True)


def _read_store(folder: pathlib.Path) -> _Pieces:
    store = Store(folder)
    parts = store.parts()
    skipped = {str(folder / "parts" / name): reason for name, reason in store.broken.items()}
    kept: list[tuple[Part, pa.Table]] = []
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for part, outcome in zip(parts, pool.map(_try_to_read_rows, parts), strict=True):
            if isinstance(outcome, FileFormatError):
                skipped[str(part.path)] = str(outcome)
            else:
                kept.append((part, outcome))
    defaults = {c.name: c.default for c in schema.matrix_columns() if not (c.required or c.default is None)}
    matrices = pd.DataFrame.from_records([defaults | part.matrix for part, _ in kept])
    return _Pieces(
        [table for _, table in kept],
        [_plain_text(matrices)] if kept else [],
        {part.environment_key: part.environment for part, _ in kept},
        skipped,
        is_merged=False,
    )


def _try_to_read_rows(part: Part) -> pa.Table | FileFormatError:
    try:
        return _read_measurements(part.path, use_threads=False)  # files are already read in parallel
    except FileFormatError as error:
        return error


def _read_rows(path: pathlib.Path, *, use_threads: bool = True) -> pa.Table:
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            # The metadata hold the facts of one file; tables are concatenated without them.
            return file.read(use_threads=use_threads).replace_schema_metadata(None)
    except Exception as error:  # whatever Arrow makes of bytes that it did not expect
        raise FileFormatError(f"{path} is damaged: {error}") from error


def _read_measurements(path: pathlib.Path, *, use_threads: bool = True) -> pa.Table:
    table = _read_rows(path, use_threads=use_threads)
    expected = schema.arrow_schema(schema.MEASUREMENTS)
    if table.schema.equals(expected):
        return table
    which = ", ".join(sorted({field.name for field in set(table.schema) ^ set(expected)})) or "in number or order"
    raise FileFormatError(f"{path} is damaged: its columns are not those of measurements: {which}")


def _frame(tables: Sequence[pa.Table]) -> pd.DataFrame:
    """Concatenate tables of measurements, with their strings as categories in alphabetical order."""
    whole = pa.concat_tables([schema.arrow_schema(schema.MEASUREMENTS).empty_table(), *tables]).unify_dictionaries()
    frame = whole.to_pandas(split_blocks=True)
    return _sorted_categories(frame)


def _sorted_categories(frame: pd.DataFrame) -> pd.DataFrame:
    sorted_ones = {}
    for name in _text_columns(schema.MEASUREMENTS):
        used = frame[name].cat.remove_unused_categories()
        sorted_ones[name] = used.cat.reorder_categories(sorted(used.cat.categories))
    return frame.assign(**sorted_ones)


def _text_columns(columns: Iterable[schema.Column]) -> list[str]:
    return [c.name for c in columns if pa.types.is_dictionary(c.type)]


def _plain_text(matrices: pd.DataFrame) -> pd.DataFrame:
    """Return the matrices with strings as strings and missing numbers as NaN."""
    kinds = {c.name: c.type for c in schema.matrix_columns()}
    typed = {}
    for name in matrices:
        kind = kinds.get(name)
        if kind is not None and not pa.types.is_dictionary(kind):
            typed[name] = matrices[name].astype(kind.to_pandas_dtype())
        elif kind is not None:
            typed[name] = matrices[name].astype(str)
    return matrices.assign(**typed)


def _merged_matrices(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Merge tables of matrices; where several rows have a value, the last one's is kept."""
    known = [c.name for c in schema.matrix_columns()]
    if not frames:
        empty = schema.arrow_schema(schema.matrix_columns()).empty_table().to_pandas()
        return _plain_text(empty)
    every = pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
    by_name = every.groupby("matrix", sort=True)
    differing = (by_name[list(_SIZE)].nunique() > 1).any(axis=1)
    if differing.any():
        names = ", ".join(differing.index[differing])
        raise ParameterError(f"different matrices of the same name: {names}", argument="sources")
    merged = by_name.last().reset_index()
    others = [name for name in merged if name not in known]
    return merged.reindex(columns=[*known, *others])


def _latest(rows: pd.DataFrame, order: NDArray[np.int64]) -> pd.DataFrame:
    """Return the last of equal measurements, and drop failures before times and times before failures."""
    by_key = group_ids(rows, schema.KEY)
    position = np.arange(len(rows))
    last = np.zeros(by_key.max(initial=-1) + 1, dtype=np.int64)
    last[by_key] = position  # assigned in order, so the last one stays
    keep = last[by_key] == position

    by_candidate = group_ids(rows, [name for name in schema.KEY if name != "cache"])
    untimed = (rows["cache"] == "").to_numpy()
    newest = np.full((2, by_candidate.max(initial=-1) + 1), -1, dtype=np.int64)
    for kind in (0, 1):
        chosen = untimed == bool(kind)
        np.maximum.at(newest[kind], by_candidate[chosen], order[chosen])
    keep &= newest[(~untimed).astype(int), by_candidate] <= order
    return rows[keep].reset_index(drop=True)


def group_ids(rows: pd.DataFrame, columns: Sequence[str]) -> NDArray[np.int64]:
    """Give a number to each distinct combination of columns' values.

    Parameters
    ----------
    rows : pandas.DataFrame
    columns : sequence of str

    Returns
    -------
    ndarray of int64, shape (rows,)
        Equal for rows that are equal in these columns; from 0 without gaps, in no particular order.
    """
    ids, distinct = np.zeros(len(rows), dtype=np.int64), 1
    for name in columns:
        codes, count = _codes(rows[name])
        if distinct > _MOST_IDS // count:
            ids, values = pd.factorize(ids)
            distinct = len(values)
        ids = ids * count + codes
        distinct *= count
    compact: NDArray[np.int64] = pd.factorize(ids)[0].astype(np.int64)
    return compact


def _codes(values: pd.Series) -> tuple[NDArray[np.int64], int]:
    """Return numbers for the values of a column, from 0, and how many there may be."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        codes, count = values.cat.codes.to_numpy(np.int64), len(values.cat.categories)
    else:
        codes, found = pd.factorize(values)
        count = len(found)
    return codes + 1, count + 1  # a missing value is 0


def sort(rows: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return the rows in the order of these columns, the first one first; categories count in their own order."""
    keys = [_sort_key(rows[name]) for name in columns]
    return rows.iloc[np.lexsort(keys[::-1])].reset_index(drop=True)


def _sort_key(values: pd.Series) -> NDArray[Any]:
    """Return numbers in the order of the values of a column: texts take long to compare."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return np.asarray(values.cat.codes)
    if pd.api.types.is_numeric_dtype(values.dtype):
        return np.asarray(values)
    return np.asarray(pd.factorize(values, sort=True)[0])


def _arrow(frame: pd.DataFrame, columns: Sequence[schema.Column]) -> pa.Table:
    """Return the frame as a table of the schema; columns that the schema does not know come last."""
    expected = schema.arrow_schema(columns)
    for column in columns:
        if column.name not in frame:
            missing = np.nan if column.required or column.default is None else column.default
            frame = frame.assign(**{column.name: missing})
    known = pa.Table.from_pandas(frame[expected.names], expected, preserve_index=False)
    for name in frame.columns.difference(expected.names):
        known = known.append_column(name, pa.Array.from_pandas(frame[name]))
    return known
