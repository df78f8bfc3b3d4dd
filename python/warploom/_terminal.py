"""What commands share: bars of what takes long, lists, and files to be written; and what planning shows of itself."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["OutputFile", "print_columns", "progress_bar", "progress_of_planning"]

Step = Callable[[int, int, str], None]
"""Takes steps done, steps in total, and what is being done."""

PATIENCE = 0.5
"""Seconds before planning shows how far it is."""


class OutputFile(click.Path):
    """A file to be written, whose folder is there: said before anything is measured."""

    def __init__(self, *, allow_dash: bool = True) -> None:
        super().__init__(dir_okay=False, writable=True, allow_dash=allow_dash)

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        path = super().convert(value, parameter, context)
        folder = os.path.dirname(path) or "."
        if path != "-" and not os.path.isdir(folder):
            self.fail(f"{folder!r} is not a folder", parameter, context)
        if path != "-" and not os.path.exists(path) and not os.access(folder, os.W_OK):
            self.fail(f"the folder {folder!r} is not writable", parameter, context)
        return path


def print_columns(rows: Iterable[Sequence[str]]) -> None:
    """Print a table of words, two spaces between columns; the last column is as long as it is."""
    listed = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*listed, strict=True)][:-1]
    for row in listed:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        click.echo("  ".join([*cells, row[-1]]).rstrip())


@contextlib.contextmanager
def progress_bar(first: str, *, remaining: bool = False) -> Iterator[Step]:
    """Show a bar on standard error; yields a function that takes steps done, steps in total and what is being done.

    `first` is shown before the first step, and `remaining` adds the remaining time.
    """
    with _bar(remaining=remaining) as bar:
        task = bar.add_task(first, total=None)
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what)


def _bar(*, remaining: bool = False) -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = [TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    if remaining:
        columns.append(TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True, force_jupyter=False), transient=True)


@contextlib.contextmanager
def progress_of_planning(wanted: Step | bool | None) -> Iterator[Step | None]:
    """Yield the caller's function, or one that shows progress once planning takes longer than `PATIENCE`.

    In a terminal that is a bar, in a notebook a line; elsewhere, or if `wanted` is False, nothing is shown.
    """
    if wanted is not None and not isinstance(wanted, bool):
        yield wanted
        return
    with contextlib.ExitStack() as shown:
        start = time.monotonic()
        show: Step | None = None

        def step(done: int, total: int, what: str) -> None:
            nonlocal show
            if show is None and time.monotonic() - start > PATIENCE:
                show = shown.enter_context(_line_in_notebook() if _in_notebook() else progress_bar("planning"))
            if show is not None:
                show(done, total, what)

        yield step if wanted is not False and (_in_notebook() or sys.stderr.isatty()) else None


@contextlib.contextmanager
def _line_in_notebook() -> Iterator[Step]:
    """Show a line below the cell, and take it away in the end."""
    display: Any = importlib.import_module("IPython.display")
    handle = display.DisplayHandle()
    handle.display(_Line("planning"))
    try:
        yield lambda done, total, what: handle.update(_Line(f"measured {done} of {total} candidates: {what}"))
    finally:
        handle.update(_Line(""))


class _Line:
    """A line of text in a notebook."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _in_notebook() -> bool:
    """Whether cells are run by a kernel of Jupyter."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and getattr(shell, "kernel", None) is not None
