"""The experiments, by name."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib
from collections.abc import Callable, Mapping

import pandas as pd

from warploom._device import Device
from warploom.errors import ParameterError

__all__ = ["Experiment", "Progress", "experiments", "find", "register"]

Progress = Callable[[int, int, str], None]
"""Takes the number of steps done, of all, and what is done next."""
Measure = Callable[[Device, Progress], pd.DataFrame]

# One module for each experiment; importing it registers it.
_MODULES = (
    "features",
    "strip_height",
    "time_split",
)
_EXPERIMENTS: dict[str, Experiment] = {}


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Something that is measured on a GPU for a table or figure."""

    name: str
    title: str
    items: tuple[str, ...]
    """What `warploom.reproduce` makes from it, by id."""
    columns: Mapping[str, str]
    """Those of the table, with their meaning and unit."""
    measure: Measure
    """Measures on a GPU; returns a table with these columns."""


def register(
    name: str, title: str, *, items: tuple[str, ...], columns: Mapping[str, str]
) -> Callable[[Measure], Measure]:
    """Register the decorated function as the one that measures an experiment.

    Parameters
    ----------
    name : str
        In small letters, with hyphens.
    title : str
        One line for lists.
    items : tuple of str
        Ids of the tables and figures that are made from it.
    columns : mapping from str to str
        The columns of the table that the function returns, with their meaning and unit.
    """

    def decorate(measure: Measure) -> Measure:
        _EXPERIMENTS[name] = Experiment(name, title, items, columns, measure)
        return measure

    return decorate


@functools.cache
def _load() -> None:
    for module in _MODULES:
        importlib.import_module(f"warploom.experiments.{module}")


def experiments() -> list[Experiment]:
    """Return all experiments, by name."""
    _load()
    return [_EXPERIMENTS[name] for name in sorted(_EXPERIMENTS)]


def find(name: str) -> Experiment:
    """Return an experiment by its name.

    Raises
    ------
    ParameterError
        There is none of that name; the message has the closest and all that there are.
    """
    known = {experiment.name: experiment for experiment in experiments()}
    if name in known:
        return known[name]
    close = difflib.get_close_matches(str(name), known, n=1, cutoff=0.4)
    hint = f"; did you mean {close[0]}?" if close else ";"
    raise ParameterError(f"there is no experiment '{name}'{hint} Known: {', '.join(known)}", argument="names")
