"""The tables and figures that can be made, by id."""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import functools
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from warploom.errors import ParameterError

if TYPE_CHECKING:
    from warploom.reproduce.context import Context
    from warploom.reproduce.result import Result

__all__ = ["PAPERS", "Item", "Paper", "Printed", "Sweep", "find", "items", "register"]


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
class Sweep:
    """Measurements that an item needs: a setting, a state of the L2 cache, and candidates."""

    setting: str
    cache: str
    techniques: Mapping[str, str]
    """From what a column of times is called to a candidate; with ``*`` at its end, the fastest that starts so."""
    transposes: bool = False
    """Whether transposes of the matrices count too, where they were measured."""
    optional: tuple[str, ...] = ()
    """Techniques that a sweep leaves out for matrices for which they make no sense, and so perhaps for all of them."""

    def candidates(self, technique: str, measured: Iterable[str]) -> list[str]:
        """Return the measured candidates that a technique stands for."""
        name = self.techniques[technique]
        if name.endswith("*"):
            return [candidate for candidate in measured if candidate.startswith(name[:-1])]
        return [candidate for candidate in measured if candidate == name]

    def command(self, techniques: Iterable[str] | None = None) -> str:
        """Return the command that makes the measurements."""
        chosen = self.techniques.values() if techniques is None else [self.techniques[name] for name in techniques]
        part = self.setting.split("/")[0]
        patterns = " ".join(f"--candidates '{name}'" for name in dict.fromkeys(chosen))
        return f"warploom bench run --output sweep --corpus {part} --setting {self.setting} {patterns}"


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

    @property
    def paper(self) -> Paper:
        """The paper that it is from."""
        return PAPERS[self.id[0]]


_ITEMS: dict[str, Item] = {}
_MODULES = (
    "row_permutation_examples",
    "row_permutations",
    "row_order_models",
    "thread_examples",
    "threads_per_row",
    "threads_per_row_blockwise",
    "threads_per_row_models",
    "tensor_cores",
    "time_split",
    "representative_matrices",
    "multirow_examples",
    "multirow_format",
    "strip_height",
)
# As in the papers; items of one paper stand in this order in its report.
_ORDER = (
    "M-F1 M-F3 M-F4 M-F5 M-F6 M-F7 M-F8 M-T1 M-F9 M-F10 M-T2 M-F11 M-F12 M-F13 M-F14 M-cls M-sens M-F15 "
    "G-F1 G-T1 G-F3 G-T2 G-T4 G-F6 G-T5 G-F7 G-F8 G-T6 G-T7 G-Alg1 G-F5 G-F9 G-T8 G-T9 G-F10 G-F11 G-T10 G-T11 "
    "G-F12 G-F13 G-F14 G-F15 G-ovh G-prec "
    "D-F1 D-F2 D-F5 D-F9 D-F10 D-F11 D-T2 D-F12 D-F13 "
    "C-ex C-eq C-F6.1 C-F6.2 C-F6.3 C-F6.4 C-F6.5 C-F6.6 C-F6.7 C-F6.8 C-tune"
)


def register(
    id: str,
    title: str,
    place: str,
    conclusion: str,
    *,
    sweeps: Sequence[Sweep] = (),
    printed: Sequence[Printed] = (),
) -> Callable[[Callable[[Context], Result]], Callable[[Context], Result]]:
    """Register the decorated function as the one that makes an item."""

    def decorate(make: Callable[[Context], Result]) -> Callable[[Context], Result]:
        _ITEMS[id] = Item(id, title, place, conclusion, tuple(printed), tuple(sweeps), make)
        return make

    return decorate


@functools.cache
def _load() -> None:
    for module in _MODULES:
        importlib.import_module(f"warploom.reproduce.{module}")


def items() -> list[Item]:
    """Return every item, in the order of the papers."""
    _load()
    return [_ITEMS[id] for id in _ORDER.split()]


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
