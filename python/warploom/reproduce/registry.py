"""The tables and figures that can be made, by id."""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import re
from collections.abc import Callable, Mapping, Sequence

from warploom._discovery import import_modules
from warploom.errors import ParameterError
from warploom.reproduce.context import Context
from warploom.reproduce.result import Result
from warploom.reproduce.sweep import Sweep

__all__ = ["PAPERS", "Item", "Paper", "Printed", "find", "items", "register"]


@dataclasses.dataclass(frozen=True)
class Paper:
    """One of the papers."""

    letter: str
    reference: str
    hardware: str
    """What the paper measured on."""


PAPERS: Mapping[str, Paper] = {
    paper.letter: paper
    for paper in (
        Paper(
            "M",
            "Mehrabi, Lee, Chatterjee, Sorin, Lee, O'Connor: Learning Sparse Matrix Row Permutations for Efficient "
            "SpMM on GPU Architectures. ISPASS 2021",
            "Tesla GV100 and GeForce RTX 2080 Ti, CUDA 10.2",
        ),
        Paper(
            "G",
            "Gao, Ji, Liu, Wang, Shi: Revisiting thread configuration of SpMV kernels on GPU: A machine learning based "
            "approach. J. Parallel Distrib. Comput., 2024",
            "Tesla V100 and Tesla P100, CUDA 11.2",
        ),
        Paper(
            "D",
            "Lu, Liu: DASP: Specific Dense Matrix Multiply-Accumulate Units Accelerated General Sparse Matrix-Vector "
            "Multiplication. SC 2023",
            "A100 PCIe 40 GB and H800 PCIe, CUDA 12.0",
        ),
        Paper(
            "C",
            "Koza, Matyka, Szkoda, Miroslaw: Compressed Multi-Row Storage Format for Sparse Matrices on Graphics "
            "Processing Units. SIAM J. Sci. Comput. 36(2), 2014",
            "Tesla K20M and GeForce GTX 480, CUDA 5.5",
        ),
    )
}


@dataclasses.dataclass(frozen=True)
class Printed:
    """A figure that a paper prints."""

    quantity: str
    value: float | str
    place: str
    """Where in the paper, and for which of its GPUs."""
    form: str = ".2f"
    """Format specification of numbers."""

    def show(self, value: float | str) -> str:
        """Return a value of this quantity as text; a dash for NaN."""
        if isinstance(value, str):
            return value
        return "-" if value != value else format(value, self.form).replace("%", " %")


@dataclasses.dataclass(frozen=True)
class Item:
    """A table or a figure of a paper."""

    id: str
    title: str
    place: str
    """Its number in the paper."""
    conclusion: str
    """What the paper concludes from it."""
    printed: tuple[Printed, ...]
    sweeps: tuple[Sweep, ...]
    """The measurements that it needs; none for examples and models."""
    make: Callable[[Context], Result]
    position: float
    """Where it stands among the figures of the paper: at their numbers, or between them."""

    @property
    def paper(self) -> Paper:
        """The paper that it is from."""
        return PAPERS[self.id[0]]


_ITEMS: dict[str, Item] = {}


def register(
    id: str,
    title: str,
    place: str,
    conclusion: str,
    *,
    sweeps: Sequence[Sweep] = (),
    printed: Sequence[Printed] = (),
    position: float | None = None,
) -> Callable[[Callable[[Context], Result]], Callable[[Context], Result]]:
    """Register the decorated function as the one that makes an item.

    Parameters
    ----------
    id : str
        The letter of the paper, a hyphen, and the number of the figure (``M-F8``, ``C-F6.1``), of the table
        (``M-T1``), or a word for anything else.
    title : str
        One line for lists.
    place : str
        Its number in the paper.
    conclusion : str
        What the paper concludes from it.
    sweeps : sequence of Sweep
        The measurements that it needs.
    printed : sequence of Printed
        What the paper prints.
    position : float, optional
        Where the item stands in its paper: 8.5 is between figures 8 and 9. Figures stand at their numbers if it is not
        given, and everything else needs it.
    """
    where = _number(id) if position is None else position

    def decorate(make: Callable[[Context], Result]) -> Callable[[Context], Result]:
        if id in _ITEMS:
            raise ValueError(f"there are two items '{id}'")
        _ITEMS[id] = Item(id, title, place, conclusion, tuple(printed), tuple(sweeps), make, where)
        return make

    return decorate


def _number(id: str) -> float:
    found = re.fullmatch(r"[A-Z]-F(\d+(\.\d+)?)", id)
    if not found:
        raise ValueError(f"'{id}' has no number of a figure; say its position")
    return float(found[1])


def items() -> list[Item]:
    """Return every item, in the order of the papers."""
    import_modules("warploom.reproduce")
    papers = list(PAPERS)
    return sorted(_ITEMS.values(), key=lambda item: (papers.index(item.id[0]), item.position, item.id))


def find(names: Sequence[str]) -> list[Item]:
    """Return the items of some names.

    Parameters
    ----------
    names : sequence of str
        Ids such as ``M-F8``, patterns such as ``M-T*``, letters of papers, or ``all``. Case does not matter.

    Returns
    -------
    list of Item
        In the order of the papers, each once.

    Raises
    ------
    ParameterError
        Nothing has one of these names; the message lists the ids and the closest of them.
    """
    known = items()
    chosen: set[str] = set()
    for name in names:
        pattern = {"ALL": "*", **{letter: f"{letter}-*" for letter in PAPERS}}.get(name.upper(), name)
        matched = {item.id for item in known if fnmatch.fnmatchcase(item.id.lower(), pattern.lower())}
        if not matched:
            raise ParameterError(_unknown(name, [item.id for item in known]), argument="ids")
        chosen |= matched
    return [item for item in known if item.id in chosen]


def _unknown(name: str, known: Sequence[str]) -> str:
    by_lower = {id.lower(): id for id in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.4)
    hint = f"; did you mean {', '.join(by_lower[c] for c in close)};" if close else ""
    return (
        f"there is no table or figure '{name}'{hint or ';'} known: {', '.join(known)}, the letter of a paper "
        f"({', '.join(PAPERS)}) and all"
    )
