"""The experiments, by name."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from typing import Literal

import pandas as pd

from warploom._discovery import import_modules
from warploom.errors import ParameterError

__all__ = ["Experiment", "Progress", "experiments", "find", "register"]

Progress = Callable[[int, int, str], None]
"""Takes the number of steps done, the number of all steps, and the name of the next one."""
Measure = Callable[..., pd.DataFrame]
"""Takes a `warploom._device.Device` and a `Progress`; one that can be limited also takes the keyword ``minutes``."""
Kind = Literal["cuda", "cpu"]

_EXPERIMENTS: dict[str, Experiment] = {}


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Something that is measured beside sweeps, most of it for a table or figure."""

    name: str
    title: str
    kind: Kind
    """Where it is measured."""
    items: tuple[str, ...]
    """What `warploom.reproduce` makes from it, by id; perhaps nothing."""
    columns: Mapping[str, str]
    """Those of the table, with their meaning and unit."""
    measure: Measure
    """Measures on a device of that kind; returns a table with these columns."""
    can_be_limited: bool = False
    """Whether it can stop after some minutes, with what it has measured until then."""


def register(
    name: str,
    title: str,
    *,
    columns: Mapping[str, str],
    items: tuple[str, ...] = (),
    kind: Kind = "cuda",
    can_be_limited: bool = False,
) -> Callable[[Measure], Measure]:
    """Register the decorated function as the one that measures an experiment.

    Parameters
    ----------
    name : str
        In small letters, with hyphens.
    title : str
        One line for lists.
    columns : mapping from str to str
        The columns of the table that the function returns, with their meaning and unit.
    items : tuple of str
        Ids of the tables and figures that are made from it.
    kind : {"cuda", "cpu"}
        Where it is measured.
    can_be_limited : bool
        Whether the function takes the keyword ``minutes`` and returns what it has measured until then.
    """

    def decorate(measure: Measure) -> Measure:
        _EXPERIMENTS[name] = Experiment(name, title, kind, items, columns, measure, can_be_limited)
        return measure

    return decorate


def experiments() -> list[Experiment]:
    """Return all experiments, by name."""
    import_modules("warploom.experiments")
    return [_EXPERIMENTS[name] for name in sorted(_EXPERIMENTS)]


def find(name: str) -> Experiment:
    """Return an experiment by its name.

    Raises
    ------
    ParameterError
        There is none of that name; the message has the closest name and all names.
    """
    known = {experiment.name: experiment for experiment in experiments()}
    if name in known:
        return known[name]
    close = difflib.get_close_matches(str(name), known, n=1, cutoff=0.4)
    hint = f"; did you mean {close[0]}?" if close else ";"
    raise ParameterError(f"there is no experiment '{name}'{hint} Known: {', '.join(known)}", argument="names")
