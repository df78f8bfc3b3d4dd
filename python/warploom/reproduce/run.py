"""Makes items and writes them: pictures, numbers, and a page for each paper."""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Callable, Sequence

import matplotlib as mpl
import pandas as pd

from warploom import _data_package
from warploom.bench import Measurements, shipped
from warploom.bench.plots import save
from warploom.errors import ParameterError
from warploom.experiments.results import holds_any
from warploom.reproduce import report
from warploom.reproduce.context import Context, MissingMeasurementsError, MissingPackagesError
from warploom.reproduce.drawing import STYLE
from warploom.reproduce.registry import PAPERS, Item, find
from warploom.reproduce.report import Outcome
from warploom.reproduce.result import Result

__all__ = ["INDEX", "make", "reproduce"]

Source = str | os.PathLike[str]
Progress = Callable[[int, int, str], None]
INDEX = "index.html"
"""The page that leads to those of the papers."""

_DEFAULT = "h200"


def make(id: str, context: Context | None = None) -> Outcome:
    """Make one table or figure without writing it, to be shown in a notebook.

    Parameters
    ----------
    id : str
        Such as ``M-F8``.
    context : Context, optional
        What to make it from; the measurements that are shipped if not given, which are read once.

    Returns
    -------
    Outcome
        Without a result, but with a reason, if it cannot be made from these measurements.

    Raises
    ------
    ParameterError
        There is no such id, or there are several.

    Examples
    --------
    >>> from warploom.reproduce import make
    >>> outcome = make("C-eq")
    >>> outcome.result.verdict.standing
    'holds'
    """
    chosen = find([id])
    if len(chosen) > 1:
        raise ParameterError(f"'{id}' names {len(chosen)} tables and figures; make takes one", argument="id")
    try:
        return Outcome(chosen[0], _result(chosen[0], context or _shipped_context()), [])
    except MissingMeasurementsError as error:
        return Outcome(chosen[0], None, [], str(error))


def reproduce(
    ids: str | Sequence[str],
    output: str | os.PathLike[str],
    *,
    measurements: Measurements | Source | Sequence[Source] | None = None,
    context: Context | None = None,
    dpi: int = 200,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Reproduce tables and figures of the papers.

    Parameters
    ----------
    ids : str or sequence of str
        Ids such as ``M-F8``, letters of papers, or ``all``.
    output : path-like
        Folder for ``<id>.png``, ``<id>.svg``, ``<id>.pdf``, ``<id>.csv`` (further tables: ``<id>-2.csv``, ...) and a
        page for each paper, ``report-<letter>.html``, to which ``index.html`` leads. Made if it is not there; files
        of the same names are replaced.
    measurements : Measurements, path-like or sequence of path-like, optional
        Those of your own sweep: a folder that ``warploom bench run`` or ``merge`` has written, or several. The ones
        of the H200 in the package warploom-data if not given. What ``warploom experiment run`` has written into
        such a folder comes before what is shipped of the same experiment; a folder may have nothing else.
    context : Context, optional
        Instead of `measurements`, to choose the matrices to load too.
    dpi : int
        Resolution of the PNGs.
    progress : callable, optional
        Called with the number of items done, of all, and the id of the next.

    Returns
    -------
    list of Outcome
        In the order of the papers.

    Raises
    ------
    ParameterError
        There is no such id, or both `measurements` and `context` are given.
    MissingMeasurementsError
        An item that was named by its id cannot be made from these measurements. With a letter or ``all`` such items
        are listed in the reports, with the command that makes what is missing.
    """
    names = [ids] if isinstance(ids, str) else list(ids)
    if not names:
        raise ParameterError("name at least one table or figure, a paper's letter, or all", argument="ids")
    if measurements is not None and context is not None:
        raise ParameterError("give measurements or context, not both", argument="context")
    chosen = find(names)
    by_name = {name.lower() for name in names}
    context = context or _context(measurements)
    folder = pathlib.Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for done, item in enumerate(chosen):
        if progress:
            progress(done, len(chosen), item.id)
        try:
            outcomes.append(_make(item, context, folder, dpi))
        except MissingMeasurementsError as error:
            if item.id.lower() in by_name:
                raise
            outcomes.append(Outcome(item, None, [], str(error)))
    papers = {letter: [outcome for outcome in outcomes if outcome.item.id[0] == letter] for letter in PAPERS}
    papers = {letter: of_paper for letter, of_paper in papers.items() if of_paper}
    for letter, of_paper in papers.items():
        (folder / f"report-{letter}.html").write_text(report.page(of_paper, context), encoding="utf-8")
    (folder / INDEX).write_text(report.index(papers), encoding="utf-8")
    return outcomes


def _context(given: Measurements | Source | Sequence[Source] | None) -> Context:
    if isinstance(given, Measurements):
        return Context(given, experiments=[_DEFAULT])
    own = [] if given is None else [given] if isinstance(given, str | os.PathLike) else list(given)
    sweeps = [name for name in own if not _only_experiments(name)]
    sweeps = sweeps or [name for name in shipped() if name == _DEFAULT]
    hint = "" if sweeps else str(_data_package.missing("the measurements are not installed"))
    return Context(Measurements.load(*sweeps) if sweeps else None, experiments=[_DEFAULT, *own], hint=hint)


def _only_experiments(source: Source) -> bool:
    """Whether a folder has experiments and nothing that could be a sweep."""
    return holds_any(source) and len(list(pathlib.Path(source).iterdir())) == 1


@functools.cache
def _shipped_context() -> Context:
    return _context(None)


def _result(item: Item, context: Context) -> Result:
    with mpl.rc_context(STYLE):
        try:
            result = item.make(context)
        except MissingMeasurementsError as error:
            reason = str(error)
            if context.hint and not isinstance(error, MissingPackagesError):
                reason = f"{context.hint}. From measurements of your own: {error}"
            raise type(error)(f"{item.id} cannot be made: {reason}", argument=error.argument) from error
    result.tables = [_with_origins(table, context) for table in result.tables]
    return result


_NAMES = ("matrix", "measured")
"""Columns with names of matrices."""


def _with_origins(table: pd.DataFrame, context: Context) -> pd.DataFrame:
    """Return a table of matrices with a column that says which of them are real and which are constructed."""
    column = next((name for name in _NAMES if name in table), None)
    if column is None or "origin" in table or set(table[column]) <= {"yes", "no"}:
        return table
    table = table.copy()
    table.insert(table.columns.get_loc(column) + 1, "origin", context.origins(table[column]))
    return table


def _make(item: Item, context: Context, folder: pathlib.Path, dpi: int) -> Outcome:
    result = _result(item, context)
    with mpl.rc_context(STYLE):
        files = save(result.figure, folder / f"{item.id}.png", dpi=dpi)
    for number, table in enumerate(result.tables, start=1):
        path = folder / (f"{item.id}.csv" if number == 1 else f"{item.id}-{number}.csv")
        table.to_csv(path, index=False, lineterminator="\n")
        files.append(path)
    return Outcome(item, result, files)
