"""Measures end-to-end times of many matrices, one after the other, in this process."""

from __future__ import annotations

import dataclasses
import gc
import importlib
import itertools
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse

from warploom import corpus
from warploom._device import Device
from warploom._matrix import as_csr
from warploom.bench import environment as environments
from warploom.bench.end_to_end import tools
from warploom.bench.end_to_end.clock import Limits, measure
from warploom.bench.end_to_end.rows import Store
from warploom.bench.loading import loaded
from warploom.bench.settings import Setting
from warploom.corpus import Entry
from warploom.errors import ParameterError, WarploomError

__all__ = ["Report", "run"]

Progress = Callable[[int, int, str], None]
_WARM_UP = "grid2d(nx=100,ny=100)"
_DIRECT = (tools.DEFAULT, tools.VENDOR, f"{tools.VENDOR}[preprocess]", "torch", "cupy", "scipy")
"""Tools that are asked for n products in one go; for the others, n products are computed."""
_MOST_LINES = 20


@dataclasses.dataclass
class Report:
    """What a run did."""

    measured: int = 0
    """Matrices."""
    known: int = 0
    """Matrices of which the folder held everything before."""
    left: int = 0
    """Matrices for which there was no time."""
    rows: int = 0
    failed: dict[str, str] = dataclasses.field(default_factory=dict)
    """Matrices, and tools on matrices, without times; with the reason."""
    missing: list[str] = dataclasses.field(default_factory=list)
    """Packages that are not installed, whose tools were left out."""
    seconds: float = 0.0

    def __str__(self) -> str:
        text = f"{self.measured} matrices measured in {self.seconds:.0f} s, {self.rows} rows; {self.known} were there"
        if self.left:
            text += f"; no time for {self.left}"
        lines = [text, *itertools.islice((f"{name}: {reason}" for name, reason in self.failed.items()), _MOST_LINES)]
        if len(self.failed) > _MOST_LINES:
            lines.append(f"and {len(self.failed) - _MOST_LINES} more that failed")
        if self.missing:
            lines.append(f"left out because they are not installed: {', '.join(self.missing)}")
        return "\n".join(lines)


def run(
    entries: Sequence[Entry],
    output: str | os.PathLike[str],
    *,
    device: str = "cuda",
    settings: Sequence[str] | None = None,
    places: Sequence[str] | None = None,
    patterns: Sequence[str] | None = None,
    limits: Limits | None = None,
    minutes: float | None = None,
    ahead: int = 0,
    progress: Progress | None = None,
) -> Report:
    """Measure what a user waits for, and store it. What the folder holds already is not measured again.

    Before anything counts, each tool plans and multiplies with another matrix: libraries are loaded then. On each
    matrix, a first planning, during which memory pools may grow, is kept apart.

    Parameters
    ----------
    entries : sequence of Entry
        The matrices, in order.
    output : path-like
        The folder.
    device : str
        ``"cuda"``, ``"cuda:N"`` or ``"cpu"``.
    settings, places, patterns : sequence of str, optional
        Settings, places of the matrix (`warploom.bench.end_to_end.rows.PLACES`) and names of tools; by default
        everything with the matrix in GPU memory, and some of it elsewhere.
    limits : Limits, optional
    minutes : float, optional
        Time after which no further matrix is started.
    ahead : int
        Matrices that are made or read by other processes while one is being measured. That takes time from planning
        where cores or the bandwidth of memory are scarce.
    progress : callable, optional
        Called with matrices done, all matrices and the next one.

    Returns
    -------
    Report

    Raises
    ------
    ParameterError
        There is no such setting, place or tool, or PyTorch is not installed and the device is a GPU.
    DeviceError
        There is no such GPU.
    StorageError
        The folder cannot be written to.
    """
    start = time.monotonic()
    where = Device.parse(device)
    plan = _listed(where, settings, places, patterns)
    store = Store(output)
    report = Report(missing=sorted({package for _, _, tool in plan if (package := tools.missing(tool))}))
    plan = [(place, setting, tool) for place, setting, tool in plan if tool not in report.missing]
    done = store.done()
    described = _environment(where)
    waiting = []
    for entry in entries:
        todo = [item for item in plan if (entry.name, item[1].name, item[0], item[2]) not in done]
        if todo:
            waiting.append((entry, todo))
    report.known = len(entries) - len(waiting)
    warm: set[tuple[str, str, str]] = set()
    tasks = {entry.name: todo for entry, todo in waiting}
    matrices = loaded([entry for entry, _ in waiting], _load, ahead)
    for number, (entry, load) in enumerate(matrices):
        if minutes is not None and time.monotonic() - start > 60 * minutes:
            report.left = len(waiting) - number
            break
        if progress is not None:
            progress(number, len(waiting), entry.name)
        try:
            A = load()
        except (WarploomError, OSError, ValueError, MemoryError) as error:
            report.failed[entry.name] = _one_line(error)
            continue
        todo = tasks[entry.name]
        _warm_up(todo, warm, where, report)
        rows = _rows(entry, A, todo, where, limits or Limits())
        for row in rows:
            if row["status"] != "ok":
                what = f"{entry.name}, {row['setting']}, {row['place']}, {row['tool']}"
                report.failed[what] = f"{row['status']}: {row['note']}"
        store.append(rows, described)
        report.measured += 1
        report.rows += len(rows)
    report.seconds = time.monotonic() - start
    return report


Item = tuple[str, Setting, str]
"""A place, a setting and a tool."""


def _listed(
    device: Device, settings: Sequence[str] | None, places: Sequence[str] | None, patterns: Sequence[str] | None
) -> list[Item]:
    known = tools.places(device)
    for place in places or ():
        if place not in known:
            raise ParameterError(
                f"on this device a matrix can be at {', '.join(known)}; got '{place}'", argument="place"
            )
    found = [
        (place, setting, tool)
        for place in known
        if not places or place in places
        for setting, tool in tools.chosen(place, device, settings, patterns)
    ]
    if not found:
        everything = dict.fromkeys(tool for op in ("spmv", "spmm") for tool in tools.names(op, known[0], device))
        raise ParameterError(f"no tool has such a name; known: {', '.join(everything)}", argument="tool")
    return found


def _environment(device: Device) -> dict[str, Any]:
    packages = {}
    for package in ("torch", "cupy"):
        if device.kind == "cuda" and not tools.missing(package):
            packages[package] = str(importlib.import_module(package).__version__)
    return {**environments.environment(device), **packages}


def _load(entry: Entry) -> scipy.sparse.csr_array:
    view = as_csr(entry.load())
    if view.data.dtype == np.float16:
        raise ParameterError("float16 is not measured end to end", argument="matrix")
    return scipy.sparse.csr_array((view.data, view.indices, view.indptr), shape=view.shape)


def _warm_up(todo: Sequence[Item], warm: set[tuple[str, str, str]], device: Device, report: Report) -> None:
    """Let every tool plan for another matrix once."""
    new = [item for item in todo if (item[0], item[1].name, item[2]) not in warm]
    if not new:
        return
    A = _load(corpus.find(_WARM_UP))
    problem: tools.Problem | None = None
    for place, setting, tool in new:
        warm.add((place, setting.name, tool))
        if problem is None or (problem.place, problem.setting) != (place, setting):
            problem = tools.Problem.of(A, setting, place, device)
        try:
            tools.make(tool, problem)[0].time(1)
        except Exception as error:  # each matrix tells why again
            report.failed[f"warming up {tool}, {setting.name}, {place}"] = _one_line(error)


def _rows(
    entry: Entry, A: scipy.sparse.csr_array, todo: Sequence[Item], device: Device, limits: Limits
) -> list[dict[str, Any]]:
    facts = {"matrix": entry.name, "family": entry.family, "kind": entry.kind}
    facts |= {"rows": A.shape[0], "cols": A.shape[1], "nnz": A.nnz}
    rows = []
    problem: tools.Problem | None = None
    for place, setting, tool in todo:
        known = facts | {"setting": setting.name, "op": setting.op, "dtype": setting.dtype, "k": setting.k}
        known |= {"place": place, "tool": tool, "csr_bytes": 0}
        if problem is None or (problem.place, problem.setting) != (place, setting):
            problem = None  # frees its memory first
            gc.collect()
            try:
                problem = tools.Problem.of(A, setting, place, device)
            except Exception as error:
                rows.append(known | _failure(error))
                continue
        known["csr_bytes"] = problem.csr_bytes()
        try:
            rows.append(known | _measured(tool, problem, limits))
        except Exception as error:
            rows.append(known | _failure(error))
    return rows


def _measured(name: str, problem: tools.Problem, limits: Limits) -> dict[str, Any]:
    problem.clear()
    tool, product = tools.make(name, problem)
    peak = _peak_memory(problem)
    found = measure(tool, limits, direct=name in _DIRECT)
    if name == tools.DEFAULT or name in tools.CALLS:
        found["peak_bytes"] = peak()
    if wrong := problem.wrong(product()):
        return {"status": "wrong result", "note": wrong}
    return found | {"status": "ok"}


def _peak_memory(problem: tools.Problem) -> Callable[[], int]:
    """Start to follow the memory of torch; returns what says how much more was held at a time. -1 if not torch's."""
    if problem.device.kind == "cpu" or problem.place.startswith("host"):
        return lambda: -1
    import torch

    where = str(problem.device)
    torch.cuda.reset_peak_memory_stats(where)
    before = torch.cuda.memory_allocated(where)
    return lambda: int(torch.cuda.max_memory_allocated(where) - before)


def _failure(error: Exception) -> dict[str, Any]:
    memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return {"status": "out of memory" if memory else "error", "note": _one_line(error)}


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
