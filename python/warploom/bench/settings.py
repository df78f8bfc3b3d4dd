"""What a sweep measures: settings, and the candidates of each."""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import re
from collections.abc import Mapping, Sequence

import numpy as np
import scipy.sparse

from warploom import _bfloat16, _core, permutations
from warploom.candidates import OPERATIONS, Candidate, matches, parse
from warploom.corpus import PARTS
from warploom.errors import ParameterError

__all__ = [
    "DOUBLE",
    "ESSENTIAL",
    "HALF",
    "LARGE",
    "SPMM",
    "SPMV",
    "Setting",
    "check_candidates",
    "listed",
    "needed_permutations",
]

_DTYPE = r"(?P<dtype>b?float16|float32|float64)"
_FORMS = (
    re.compile(rf"(?P<op>spmv)/{_DTYPE}"),
    re.compile(rf"(?P<op>spmm)/{_DTYPE}/(?P<layout>row|column)/k=(?P<k>rows|[1-9]\d*)"),
    re.compile(rf"(?P<op>sddmm)/{_DTYPE}/k=(?P<k>[1-9]\d*)"),
)


@dataclasses.dataclass(frozen=True)
class Setting:
    """One product to measure: operation, value type, for SpMM layout and columns of B, for SDDMM columns of X and Y."""

    op: str
    dtype: str
    layout: str = "column"
    k: int | None = 1
    """None means as many as A has rows."""

    @property
    def name(self) -> str:
        """``spmv/float64``, ``spmm/float32/row/k=128``, ``spmm/float32/column/k=rows`` or ``sddmm/float16/k=32``."""
        base = f"{self.op}/{self.dtype}"
        if self.op == "spmv":
            return base
        layout = f"/{self.layout}" if self.op == "spmm" else ""
        return f"{base}{layout}/k={'rows' if self.k is None else self.k}"

    @classmethod
    def parse(cls, name: str) -> Setting:
        """Turn a name into a setting.

        Raises
        ------
        ParameterError
            If `name` is not of one of these forms.
        """
        match = next(filter(None, (form.fullmatch(name) for form in _FORMS)), None)
        if match is None:
            raise ParameterError(
                f"{name!r} is not a setting; expected spmv/DTYPE, spmm/DTYPE/row|column/k=rows|NUMBER or "
                "sddmm/DTYPE/k=NUMBER",
                argument="setting",
            )
        given = match.groupdict()
        if given["op"] == "spmv":
            return cls("spmv", given["dtype"])
        return cls(
            given["op"], given["dtype"], given.get("layout", "row"), None if given["k"] == "rows" else int(given["k"])
        )

    def columns(self, rows: int) -> int:
        """Columns of B for a matrix with so many rows."""
        return rows if self.k is None else self.k

    def values(self, A: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """Return `A` in this value type; for float16 over its largest entry, so that values and sums are in range."""
        data = A.data
        if self.dtype == "float16":
            data = data / (np.abs(data).max(initial=0) or 1)
        if self.dtype == "bfloat16":  # of which SciPy makes no matrix
            typed = scipy.sparse.csr_array((data.astype(np.float32), A.indices, A.indptr), shape=A.shape)
            typed.data = _bfloat16.cast(typed.data, _bfloat16.DTYPE)
            return typed
        return scipy.sparse.csr_array((data.astype(self.dtype), A.indices, A.indptr), shape=A.shape)


SPMM, SPMV = (PARTS[part].settings for part in ("spmm", "spmv"))
"""Settings of the shipped measurements; the first of SpMM is that of Mehrabi et al. 2021."""


ESSENTIAL = "@essential"
"""Means the candidates of ``essential.txt`` where patterns of names are expected."""

LARGE = "@large"
"""Means the candidates of ``large.txt``."""

HALF = "@half"
"""Means the candidates of ``half.txt``, which are those of SpMM in float16 and bfloat16 where no others are named."""

DOUBLE = "@double"
"""Means the candidates of ``double.txt``, which are those of row-major SpMM in float64 where no others are named."""

COLUMN = "@column"
"""Means the candidates of ``column.txt``, which are those of column-major SpMM in float64 where no others are named."""

_FILES = {LARGE: "large.txt", HALF: "half.txt", DOUBLE: "double.txt", COLUMN: "column.txt"}


@functools.cache
def _portfolio() -> tuple[str, ...]:
    """Patterns of the candidates that sweeps measure by default, from ``portfolio.txt``."""
    return _lines("portfolio.txt")


@functools.cache
def _essential() -> Mapping[str, frozenset[str]]:
    """Names in ``essential.txt`` by setting."""
    names: dict[str, set[str]] = {}
    for line in _lines("essential.txt"):
        if line.startswith("["):
            chosen = names.setdefault(line.strip("[]"), set())
        else:
            chosen.add(line)
    return {setting: frozenset(chosen) for setting, chosen in names.items()}


def _lines(file: str) -> tuple[str, ...]:
    text = (importlib.resources.files("warploom.bench") / file).read_text()
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return tuple(line for line in lines if line)


def listed(setting: Setting, device: str, patterns: str | Sequence[str] | None = None) -> list[Candidate]:
    """Candidates to measure in a setting, in the order of the registry.

    Parameters
    ----------
    setting : Setting
    device : {"cuda", "cpu"}
    patterns : str or sequence of str, optional
        Shell-style patterns of names; by default those of the portfolio, ``"*"`` for every registered candidate.
        The name of a candidate with other parameters is taken, too.
        ``"@essential"`` is the part of the portfolio that suffices: everything that tables compare, and the
        parameters without which the fastest of the portfolio would be missed by more than 0.15 % on average.
        ``"@large"`` is a short list of what can win from 10^6 nonzeros on, with the orders for locality, and
        ``"@half"`` one of what can win in float16 and bfloat16, where it stands in for the other three, as
        ``"@double"`` and, where B is column-major, ``"@column"`` do in float64 for SpMM.

    Returns
    -------
    list of Candidate
        Empty for a sampled product, which has no candidates of plans: see `warploom.bench.sampled`.
    """
    chosen = [patterns] if isinstance(patterns, str) else patterns
    return list(_listed(setting, device, None if chosen is None else tuple(chosen)))


def check_candidates(patterns: str | Sequence[str] | None) -> None:
    """Raise `ParameterError` for a pattern that no candidate of any operation and device matches.

    Parameters
    ----------
    patterns : str or sequence of str, optional
        As `listed` takes them.
    """
    lists = (ESSENTIAL, *_FILES)
    for pattern in [patterns] if isinstance(patterns, str) else patterns or ():
        if pattern in lists or _named(pattern) is not None:
            continue
        if not any(matches(name, pattern) for name in _every_name()):
            raise ParameterError(
                f"candidates: no candidate matches {pattern!r}; lists of them are {', '.join(lists)}",
                argument="candidates",
            )


@functools.cache
def _every_name() -> frozenset[str]:
    found = (_core.enumerate_candidates(op, None, device, None) for op in OPERATIONS for device in ("cuda", "cpu"))
    return frozenset(candidate.name for candidates in found for candidate in candidates)


@functools.cache
def _listed(setting: Setting, device: str, patterns: tuple[str, ...] | None) -> tuple[Candidate, ...]:
    if setting.op == "sddmm":
        return ()
    if setting.op == "spmm" and setting.dtype != "float32" and patterns in (None, (ESSENTIAL,), (LARGE,)):
        of_float64 = DOUBLE if setting.layout == "row" else COLUMN
        patterns = (of_float64 if setting.dtype == "float64" else HALF,)
    if patterns is not None and len(patterns) == 1 and patterns[0] in _FILES:
        # Not all of them are registered: orders for locality are tried with settings that others are not.
        named = [parse(name) for name in _lines(_FILES[patterns[0]]) if name.startswith(f"{setting.op}/")]
        return tuple(c for c in named if _is_for(c.kernel, setting, device))
    known = dict.fromkeys(_core.enumerate_candidates(setting.op, setting.layout, device, setting.dtype))
    if patterns == (ESSENTIAL,) and setting.name in _essential():
        return tuple(c for c in known if c.name in _essential()[setting.name])
    if patterns is not None and patterns != (ESSENTIAL,):
        named = [c for c in map(_named, patterns) if c is not None and c.kernel.op == setting.op]
        found = [c for c in known if matches(c.name, patterns)]
        return tuple(dict.fromkeys([*found, *(c for c in named if _is_for(c.kernel, setting, device))]))
    wanted = {parse(name) for name in _portfolio() if "*" not in name and name.startswith(f"{setting.op}/")}
    globs = [name for name in _portfolio() if "*" in name]

    def of_portfolio(candidate: Candidate) -> bool:
        # Orders for locality are worth measuring on large matrices only, which have an experiment of their own.
        if candidate in wanted:
            return True
        return matches(candidate.name, globs) and permutations.family(candidate.permutation) != "locality"

    return tuple(c for c in known if of_portfolio(c)) if globs else tuple(c for c in known if c in wanted)


def _named(pattern: str) -> Candidate | None:
    """Return the candidate of this name, which need not be registered."""
    try:
        return parse(pattern)
    except ParameterError:
        return None


def _is_for(kernel: _core.Kernel, setting: Setting, device: str) -> bool:
    layouts = setting.op == "spmv" or setting.layout in kernel.layouts
    return device in kernel.devices and setting.dtype in kernel.dtypes and layouts


def needed_permutations(
    settings: Sequence[Setting], device: str, rows: int, search_rows: int, patterns: Sequence[str] | None = None
) -> list[str]:
    """Row permutations that the candidates of some settings use on a matrix with so many rows."""
    used = {c.permutation for s in settings for c in listed(s, device, patterns)} - {"none"}
    return [
        name
        for name in permutations.names()
        if name in used and (rows <= search_rows or not permutations.searches(name))
    ]
