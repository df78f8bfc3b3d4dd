"""The progress bar of the commands."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

__all__ = ["progress_bar"]


@contextlib.contextmanager
def progress_bar(first: str, *, remaining: bool = False) -> Iterator[Callable[[int, int, str], None]]:
    """Show a bar on standard error; yields a function that takes steps done, steps in total and what is being done.

    `first` is shown before the first step, and `remaining` adds the remaining time.
    """
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    if remaining:
        columns.append(TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(first, total=None)
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what)
