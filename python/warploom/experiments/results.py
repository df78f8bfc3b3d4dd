"""Findings of experiments: a small table and its environment, in one file."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import pandas as pd

from warploom import _data_package
from warploom.bench.store import StorageError, make_folder
from warploom.errors import FileFormatError
from warploom.experiments.registry import find

__all__ = ["Findings", "folder_of", "holds_any", "load", "shipped"]

_FOLDER = "experiments"
_MARK = "# "

Source = str | os.PathLike[str]


@dataclasses.dataclass
class Findings:
    """The findings of one run of an experiment.

    Parameters
    ----------
    name : str
        Name of the experiment.
    table : pandas.DataFrame
        With the columns of the experiment.
    environment : dict
        What was measured on, as `warploom.bench.environment.environment` describes it, and ``clock_mhz``, the clock
        after the measurements.
    made : str
        The day, such as ``2026-11-21``.
    """

    name: str
    table: pd.DataFrame
    environment: dict[str, Any]
    made: str = ""

    def save(self, folder: Source) -> pathlib.Path:
        """Write ``experiments/<name>.csv`` in a folder: a line of JSON behind ``#``, and the table.

        Parameters
        ----------
        folder : path-like
            Made if it does not exist; may be that of a sweep. A file of that name is replaced, and only as a whole.

        Returns
        -------
        pathlib.Path
            The file.

        Raises
        ------
        StorageError
            It cannot be written.
        """
        path = _path(folder, self.name)
        facts = {"experiment": self.name, "made": self.made, "environment": self.environment}
        text = self.table.to_csv(index=False, lineterminator="\n", float_format="%.5g")
        make_folder(path.parent)
        unfinished = path.with_suffix(f".{os.getpid()}.tmp")
        try:
            unfinished.write_text(f"{_MARK}{json.dumps(facts)}\n{text}", encoding="utf-8")
            unfinished.replace(path)
        except OSError as error:
            raise StorageError(f"{path} cannot be written: {error}") from error
        finally:
            unfinished.unlink(missing_ok=True)
        return path

    @classmethod
    def read(cls, path: Source) -> Findings:
        """Read a file that `save` has written.

        Raises
        ------
        FileFormatError
            It is damaged, or lacks columns of its experiment.
        """
        try:
            head, _, text = pathlib.Path(path).read_text(encoding="utf-8").partition("\n")
            facts = json.loads(head.removeprefix(_MARK))
            found = cls(facts["experiment"], pd.read_csv(io.StringIO(text)), facts["environment"], facts["made"])
            columns = find(found.name).columns
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FileFormatError(f"{path} does not hold the findings of an experiment: {error}") from error
        absent = [name for name in columns if name not in found.table]
        if absent or found.table.empty:
            wrong = f"lacks {', '.join(absent)}" if absent else "has no rows"
            raise FileFormatError(f"the table in {path} {wrong}")
        return found

    @property
    def where(self) -> str:
        """What was measured on, to be read after a verb: ``on the NVIDIA H200``."""
        return f"on the {self.environment['gpu'] or self.environment['cpu']}"

    @property
    def device(self) -> str:
        """What was measured on, for captions: ``NVIDIA H200, CUDA 13.0``."""
        if not self.environment["gpu"]:
            return f"{self.environment['cpu']}, {self.environment['cpu_threads']} threads"
        return f"{self.environment['gpu']}, CUDA {self.environment['cuda']}"


def shipped(name: str) -> list[str]:
    """Return the names of the devices whose findings of an experiment are shipped, such as ``h200``."""
    folder = _data_package.folder()
    file = f"{_FOLDER}/{find(name).name}.csv"
    return sorted(path.parent.parent.name for path in folder.glob(f"*/{file}")) if folder else []


def load(name: str, sources: Sequence[Source | Findings]) -> Findings | None:
    """Read the findings of an experiment.

    Parameters
    ----------
    name : str
        Name of the experiment.
    sources : sequence of path-like or Findings
        Folders that `run` wrote into, names of devices whose findings are shipped (to read a folder of that name, write
        ``./name``), and findings in memory. The last one that has this experiment counts.

    Returns
    -------
    Findings or None
        None if no source has it.

    Raises
    ------
    ParameterError
        There is no such experiment.
    FileFormatError
        The file that counts is damaged.

    Examples
    --------
    >>> from warploom import experiments
    >>> found = experiments.load("time-split", ["h200"])
    >>> found.device
    'NVIDIA H200, CUDA 13.0'
    """
    known = find(name).name
    for source in reversed(sources):
        if isinstance(source, Findings):
            if source.name == known:
                return source
            continue
        folder = _data_package.find(source, f"{_FOLDER}/{known}.csv") or pathlib.Path(source)
        path = _path(folder, known)
        if path.exists():
            return Findings.read(path)
    return None


def holds_any(folder: Source) -> bool:
    """Whether a folder has findings of experiments."""
    return any(folder_of(folder).glob("*.csv"))


def folder_of(folder: Source) -> pathlib.Path:
    """Return where in a folder of measurements the findings of experiments are."""
    return pathlib.Path(folder) / _FOLDER


def _path(folder: Source, name: str) -> pathlib.Path:
    return folder_of(folder) / f"{name}.csv"
