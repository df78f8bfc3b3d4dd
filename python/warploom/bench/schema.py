"""The tables of a sweep, column by column: types, units and meanings.

A sweep has two tables. `MEASUREMENTS` has one row for each matrix, setting, state of the cache, candidate and run;
`matrix_columns` has one row for each matrix. What a row was measured on is found under the key in its column
``environment``; the environments are kept as JSON in the metadata of the Parquet files.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from warploom import _core, features, permutations
from warploom.errors import ParameterError

__all__ = [
    "CACHES",
    "KEY",
    "MEASUREMENTS",
    "OVERLAP",
    "SIGNIFICANT_DIGITS",
    "STATUSES",
    "STORED_FEATURES",
    "VERSION",
    "Column",
    "arrow_schema",
    "describe",
    "describe_table",
    "environment_key",
    "matrix_columns",
    "round_times",
    "table",
]

VERSION = 1
"""Of the tables; files of another version are refused."""

CACHES = ("warm", "cold", "")
"""States of the L2 cache before each repeat; empty for a row without times."""

STATUSES = ("ok", "rounded sums", "wrong result", "out of memory", "time limit", "unsupported", "error")

KEY = ("matrix", "setting", "cache", "candidate", "run", "environment")
"""The columns that identify a measurement."""

SIGNIFICANT_DIGITS = {"median_us": 4, "p10_us": 3, "p90_us": 3, "preparation_ms": 2}
"""Of the columns with times in merged tables. More are not repeatable, and fewer compress better."""

STORED_FEATURES: Mapping[str, tuple[str, ...]] = {
    **{of: features.names(of) for of in ("spmm", "spmv", "column_vectors")},
    "locality": _core.overlap_feature_names(),
}
"""Sets of features, and which of their features the table of matrices has."""

OVERLAP = f"locality_{_core.overlap_feature_names()[0]}"
"""The column of the feature of locality that models take."""

_REQUIRED = object()
_TEXT = pa.dictionary(pa.int32(), pa.string())


@dataclasses.dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str
    type: pa.DataType
    unit: str
    """Empty for names and counts without a unit."""
    meaning: str
    default: Any = _REQUIRED
    """The value where a row does not give one; `None` is a missing value, which is read as NaN."""

    @property
    def required(self) -> bool:
        """Whether every row has to give it."""
        return self.default is _REQUIRED


MEASUREMENTS: tuple[Column, ...] = (
    Column("matrix", _TEXT, "", "name of the matrix, as in the table of matrices"),
    Column(
        "setting",
        _TEXT,
        "",
        "what was computed: `spmv/<dtype>`, `spmm/<dtype>/<layout>/k=<columns>`, with `k=rows` for a square B, or "
        "`sddmm/<dtype>/k=<columns>`",
    ),
    Column("op", _TEXT, "", "`spmv`, `spmm` or `sddmm`"),
    Column("dtype", _TEXT, "", "type of the values: `float64`, `float32`, `float16` or `bfloat16`"),
    Column("layout", _TEXT, "", "layout of B and C: `row` or `column`; empty but for spmm", ""),
    Column(
        "k",
        pa.int32(),
        "columns",
        "columns of B, or of X and Y; a number also where the setting says `rows`; 1 for spmv",
        1,
    ),
    Column("cache", _TEXT, "", "L2 cache before each repeat: `warm` or `cold`; empty where nothing was timed", ""),
    Column("candidate", _TEXT, "", "name of the candidate, one of `warploom.candidates()`"),
    Column("median_us", pa.float32(), "us", "median time of a product on the device", None),
    Column("p10_us", pa.float32(), "us", "10th percentile of the repeats", None),
    Column("p90_us", pa.float32(), "us", "90th percentile of the repeats", None),
    Column("repeats", pa.int16(), "", "timed repeats; 0 where nothing was timed", 0),
    Column("run", pa.int8(), "", "0 for the measurement, 1 for its repetition in another order", 0),
    Column("position", pa.int32(), "", "position in the random order of the run, from 0; -1 if never reached", -1),
    Column(
        "status",
        _TEXT,
        "",
        "`ok`; `rounded sums` where sums are rounded to the value type with every product, so that the candidate is "
        "timed but never chosen; or why there is no time: " + ", ".join(f"`{s}`" for s in STATUSES[2:]),
    ),
    Column("note", _TEXT, "", "the message of the error, or another remark", ""),
    Column("preparation_ms", pa.float32(), "ms", "row permutation, conversion to the format and upload", None),
    Column("bytes", pa.int64(), "bytes", "memory of the prepared product on the device", 0),
    Column("clock_mhz", pa.int16(), "MHz", "clock of the multiprocessors right after; 0 if unknown", 0),
    Column("environment", _TEXT, "", "key of the environment: GPU, clocks, driver, CUDA, versions, source state", ""),
)


def matrix_columns() -> tuple[Column, ...]:
    """Return the columns of the table of matrices; features and permutations are those that warploom has."""
    facts = (
        Column("matrix", _TEXT, "", "name"),
        Column("family", _TEXT, "", "construction or group that it belongs to", ""),
        Column("kind", _TEXT, "", "the problem that it comes from, as the collection words it", ""),
        Column("source", _TEXT, "", "where it was obtained", ""),
        Column("licence", _TEXT, "", "licence note of the source", ""),
        Column("rows", pa.int64(), "", "rows"),
        Column("cols", pa.int64(), "", "columns"),
        Column("nnz", pa.int64(), "", "stored entries"),
        Column("referenced_cols", pa.int64(), "", "columns with a stored entry; -1 if not counted", -1),
        Column("load_s", pa.float32(), "s", "reading or constructing it", None),
    )
    numbers = tuple(
        Column(
            f"{of}_{name}", pa.float64(), "", f"feature `{name}` of the set `{of}`, see `warploom.features.{of}`", None
        )
        for of, of_set in STORED_FEATURES.items()
        for name in of_set
    )
    times = (
        Column("features_ms", pa.float32(), "ms", "computing the features of the sets spmm and spmv", None),
        *(
            Column(f"permutation_ms_{name}", pa.float32(), "ms", f"computing the row permutation `{name}`", None)
            for name in permutations.names()
            if name != "none"
        ),
    )
    return facts + numbers + times


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """Return the Arrow schema of a table. Strings are dictionary-encoded."""
    return pa.schema([pa.field(c.name, c.type, nullable=c.default is None) for c in columns])


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], argument: str = "rows") -> pa.Table:
    """Make an Arrow table of rows.

    Parameters
    ----------
    rows : sequence of mappings
        From the names of the columns to values. NaN and None are missing values; columns with a default may be left
        out.
    columns : sequence of Column
        The table's.
    argument : str
        What errors call the rows.

    Raises
    ------
    ParameterError
        A row has an unknown column, lacks a required one, or has a value that its column does not take.
    """
    known = {c.name for c in columns}
    for row in rows:
        if unknown := sorted(set(row) - known):
            raise ParameterError(f"{argument} have unknown columns: {', '.join(unknown)}", argument=argument)
    return pa.Table.from_arrays([_array(rows, c, argument) for c in columns], schema=arrow_schema(columns))


def _array(rows: Sequence[Mapping[str, Any]], column: Column, argument: str) -> pa.Array:
    missing = None if column.required else column.default
    values = [missing if _is_missing(value := row.get(column.name)) else value for row in rows]
    if column.required and any(value is None for value in values):
        raise ParameterError(f"{argument} lack '{column.name}'", argument=argument)
    try:
        return pa.array(values, column.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ParameterError(
            f"{argument}: column '{column.name}' is {column.type}: {error}", argument=argument
        ) from None


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float | np.floating) and math.isnan(value))


def environment_key(environment: Mapping[str, Any]) -> str:
    """Return the key of an environment: the same for equal contents, whatever their order.

    Raises
    ------
    ParameterError
        It holds something that JSON cannot represent.
    """
    try:
        text = json.dumps(environment, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"environment cannot be written as JSON: {error}", argument="environment") from None
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def round_times(times: Any, digits: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Round to this many significant digits; NaN, infinities and 0 are kept.

    Parameters
    ----------
    times : array-like of float
    digits : int
        At least 1.

    Returns
    -------
    ndarray of float32
    """
    exact = np.array(times, dtype=np.float64)
    regular = np.isfinite(exact) & (exact != 0)
    chosen = exact[regular]
    places = digits - 1 - np.floor(np.log10(np.abs(chosen)))
    scale = 10.0 ** np.abs(places)
    # Powers of ten with a negative exponent are not exact; division by the positive one is correctly rounded.
    exact[regular] = np.where(places >= 0, np.round(chosen * scale) / scale, np.round(chosen / scale) * scale)
    return exact.astype(np.float32)


def describe() -> str:
    """Return both tables as text: every column with its type, unit and meaning."""
    return describe_table("measurements", MEASUREMENTS) + describe_table("matrices", matrix_columns())


def describe_table(title: str, columns: Iterable[Column]) -> str:
    """Return a table as text: every column with its type, unit and meaning."""
    import rich.box
    import rich.console
    import rich.table

    text = io.StringIO()
    console = rich.console.Console(file=text, width=140, color_system=None, force_jupyter=False)
    rendered = rich.table.Table(title=title, title_justify="left", box=rich.box.SIMPLE_HEAD)
    for heading in ("column", "type", "unit", "meaning"):
        rendered.add_column(heading)
    for column in columns:
        kind = "string" if pa.types.is_dictionary(column.type) else str(column.type)
        rendered.add_row(column.name, kind, column.unit, column.meaning)
    console.print(rendered)
    return text.getvalue()
