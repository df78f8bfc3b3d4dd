"""The table of end-to-end times: its columns, and the folder that it is kept in."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import time
import uuid
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from warploom._limits import PLACES
from warploom.bench import schema
from warploom.bench.measurements import folder_of
from warploom.bench.schema import Column
from warploom.bench.store import make_folder, read_facts, write_table
from warploom.errors import FileFormatError, ParameterError

__all__ = ["COLUMNS", "DIRECT", "KEY", "PLACES", "PRODUCTS", "STATUSES", "Rows", "Store", "describe"]

DIRECT = (10, 100, 1000)
"""Numbers of products whose time is measured from the start of planning, where that does not take too long."""

PRODUCTS = (1, *DIRECT, 100_000)
"""Numbers of products that tables compare."""

STATUSES = ("ok", "wrong result", "out of memory", "error")

KEY = ("matrix", "setting", "place", "tool")
"""The columns that identify a row."""

_FOLDER = "end-to-end"
_TEXT = pa.dictionary(pa.int32(), pa.string())
_MICROSECONDS = pa.float64()

COLUMNS: tuple[Column, ...] = (
    Column("matrix", _TEXT, "", "name of the matrix"),
    Column("family", _TEXT, "", "construction or group that it belongs to", ""),
    Column("kind", _TEXT, "", "the problem that it comes from", ""),
    Column("rows", pa.int64(), "", "rows"),
    Column("cols", pa.int64(), "", "columns"),
    Column("nnz", pa.int64(), "", "stored entries"),
    Column("setting", _TEXT, "", "what was computed: `spmv/<dtype>` or `spmm/<dtype>/<layout>/k=<columns>`"),
    Column("op", _TEXT, "", "`spmv` or `spmm`"),
    Column("dtype", _TEXT, "", "type of the values: `float64` or `float32`"),
    Column("k", pa.int32(), "columns", "columns of B; 1 for spmv", 1),
    Column("place", _TEXT, "", "; ".join(f"`{name}`: {meaning}" for name, meaning in PLACES.items())),
    Column("tool", _TEXT, "", "what planned and multiplied, with its options"),
    Column("planning_us", _MICROSECONDS, "us", "median time until the plan can be used, synchronised", None),
    Column("planning_min_us", _MICROSECONDS, "us", "least of these times", None),
    Column("planning_max_us", _MICROSECONDS, "us", "greatest of these times", None),
    Column("planning_cold_us", _MICROSECONDS, "us", "the first planning for this matrix, when memory pools grow", None),
    Column("repeats", pa.int16(), "", "repeats of planning; the first one is not among them", 0),
    Column("phases", pa.string(), "", "milliseconds of warploom's phases of planning, as JSON", ""),
    Column("first_us", _MICROSECONDS, "us", "median of planning and the first product, until it is done", None),
    Column("call_us", _MICROSECONDS, "us", "median time of a further product in a loop, synchronised at its end", None),
    *(
        Column(f"until_{n}_us", _MICROSECONDS, "us", f"measured time of planning and {n} products", None)
        for n in DIRECT
    ),
    Column("candidate", _TEXT, "", "the candidate that warploom chose", ""),
    Column("plan_bytes", pa.int64(), "bytes", "memory that the plan holds on the device; the buffer of cuSPARSE", 0),
    Column("csr_bytes", pa.int64(), "bytes", "memory of the matrix as it was given"),
    Column("peak_bytes", pa.int64(), "bytes", "most memory of torch's that planning held; -1 if not known", -1),
    Column("status", _TEXT, "", "`ok`, or why times are missing: " + ", ".join(f"`{s}`" for s in STATUSES[1:])),
    Column("note", pa.string(), "", "the message of the error", ""),
    Column("environment", _TEXT, "", "key of the environment: GPU, driver, CUDA, versions, source state", ""),
)


class Store:
    """The files of end-to-end times in a folder, one for each matrix in each run.

    Parameters
    ----------
    folder : path-like
        Made if it does not exist. It may be that of a sweep.

    Raises
    ------
    StorageError
        It cannot be made.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._parts = make_folder(pathlib.Path(folder) / _FOLDER)

    def append(self, rows: Sequence[Mapping[str, Any]], environment: Mapping[str, Any]) -> pathlib.Path:
        """Add rows, atomically.

        Raises
        ------
        ParameterError
            A row does not fit the table.
        StorageError
            The file cannot be written.
        """
        for row in rows:
            for name, allowed in (("place", PLACES), ("status", STATUSES)):
                if row.get(name) not in allowed:
                    raise ParameterError(f"{name} is one of {', '.join(allowed)}, got {row.get(name)!r}", argument=name)
        key = schema.environment_key(environment)
        table = schema.table([{**row, "environment": key} for row in rows], COLUMNS)
        path = self._parts / f"{time.time_ns():020d}-{uuid.uuid4().hex[:12]}.parquet"
        write_table(table, path, {"table": _FOLDER, "environment_key": key, "environment": dict(environment)})
        return path

    def done(self) -> set[tuple[str, str, str, str]]:
        """Return the keys of all rows in the folder, whatever their status."""
        frame = _read(self._parts).frame
        return set(frame[list(KEY)].itertuples(index=False, name=None))


@dataclasses.dataclass
class Rows:
    """End-to-end times in memory."""

    frame: pd.DataFrame
    """Columns as in `COLUMNS`; one row for each `KEY`."""
    environments: dict[str, dict[str, Any]]
    """What was measured on, by the keys in the column ``environment``."""

    @classmethod
    def load(cls, *folders: str | os.PathLike[str]) -> Rows:
        """Read the rows in some folders.

        Parameters
        ----------
        *folders : path-like
            What `run` wrote to, or ``h200`` for what is shipped. Of rows with the same key, the last one that was
            written counts.

        Raises
        ------
        ParameterError
            There are no rows in them.
        """
        parts = [_read(folder_of(folder) / _FOLDER) for folder in folders]
        frame = pd.concat([part.frame for part in parts]) if parts else pd.DataFrame()
        if frame.empty:
            raise ParameterError(
                f"no end-to-end times in {', '.join(map(str, folders)) or 'no folder'}", argument="folders"
            )
        frame = frame.drop_duplicates(list(KEY), keep="last", ignore_index=True)
        known = {key: facts for part in parts for key, facts in part.environments.items()}
        return cls(frame, {key: known[key] for key in sorted(frame["environment"].unique())})


def _read(folder: pathlib.Path) -> Rows:
    """Read the files in the order in which they were written; warn of those that are damaged."""
    frames, environments = [], {}
    for path in sorted(folder.glob("*.parquet")):
        try:
            facts = read_facts(path)
            if facts.get("table") != _FOLDER:
                raise FileFormatError(f"{path} holds no end-to-end times")
            frames.append(_frame(path))
            environments[facts["environment_key"]] = facts["environment"]
        except (FileFormatError, KeyError) as error:
            warnings.warn(f"left out: {error}", RuntimeWarning, stacklevel=3)
    names = [column.name for column in COLUMNS]
    return Rows(pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=names), environments)


def _frame(path: pathlib.Path) -> pd.DataFrame:
    try:
        frame = pq.read_table(path).to_pandas()
    except Exception as error:  # whatever Arrow makes of bytes that it did not expect
        raise FileFormatError(f"{path} is damaged: {error}") from error
    absent = [column.name for column in COLUMNS if column.name not in frame]
    if absent:
        raise FileFormatError(f"{path} lacks {', '.join(absent)}")
    text = [column.name for column in COLUMNS if column.type == _TEXT]
    return frame.astype(dict.fromkeys(text, object))


def describe() -> str:
    """Return the table as text: every column with its type, unit and meaning."""
    return schema.describe_table("end-to-end times", COLUMNS)
