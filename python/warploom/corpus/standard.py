"""The standard corpus: the matrices that the shipped measurements were made on, in parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from warploom.corpus.entry import Entry
from warploom.corpus.lookup import find
from warploom.errors import ParameterError

__all__ = ["PARTS", "Part", "standard"]


@dataclasses.dataclass(frozen=True)
class Part:
    """Matrices that are measured in the same way."""

    summary: str
    settings: tuple[str, ...]
    """Those of `warploom.bench` that are meant for it."""
    names: Callable[[], Iterator[str]]
    candidates: tuple[str, ...] | None = None
    """Patterns of candidates, where not the usual ones."""


PARTS: dict[str, Part] = {}


def standard(part: str) -> list[Entry]:
    """List the matrices of a part of the standard corpus.

    Parameters
    ----------
    part : str
        One of `PARTS`.

    Returns
    -------
    list of Entry

    Raises
    ------
    ParameterError
        There is no such part.
    """
    if part not in PARTS:
        raise ParameterError(f"unknown part '{part}' of the corpus; known: {', '.join(PARTS)}", argument="part")
    return [find(name) for name in PARTS[part].names()]
