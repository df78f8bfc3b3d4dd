"""Names of matrices: their syntax, and the canonical spelling of each.

A name is the matrix itself, which is

- a construction, ``rmat(scale=15,seed=3)``,
- a matrix of the SuiteSparse collection, ``HB/dwt_361``, or of a folder,
- or the path of a file,

followed by any number of suffixes, applied from left to right: ``.T`` transposes, ``[a:b]`` takes rows a to b - 1,
``.shuffled`` puts rows and columns in a random order, ``.half`` a random half of them, and ``.reordered(ORDER)``
permutes both by an order for locality.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import scipy.sparse

from warploom import permutations
from warploom.corpus import constructions
from warploom.corpus.arrangements import arranged, reordered
from warploom.errors import ParameterError

__all__ = [
    "Arranged",
    "Call",
    "Name",
    "Reordered",
    "Rows",
    "Step",
    "Transpose",
    "canonical",
    "closest",
    "is_plain",
    "parse",
]

_ONE_SUFFIX = r"\.T|\[[^\[\]]*\]|\.shuffled|\.half|\.reordered\([^()]*\)"
_SUFFIXED = re.compile(rf"(?P<base>.*?)(?P<suffixes>(?:{_ONE_SUFFIX})*)", re.DOTALL)
_SUFFIX = re.compile(_ONE_SUFFIX)
_ROWS = re.compile(r"\[\s*([0-9]{0,18})\s*:\s*([0-9]{0,18})\s*\]")
_CALL = re.compile(r"\s*[A-Za-z_]\w*\s*\(.*\)\s*", re.DOTALL)


@dataclass(frozen=True)
class Transpose:
    """The suffix ``.T``."""

    keeps_nnz: ClassVar[bool] = True

    def __str__(self) -> str:
        return ".T"

    def shape(self, rows: int | None, cols: int | None) -> tuple[int | None, int | None]:
        """Return the shape of the result for a shape of the matrix; None is an unknown number."""
        return cols, rows

    def apply(self, matrix: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """Return the transpose."""
        return matrix.T.tocsr()


@dataclass(frozen=True)
class Rows:
    """The suffix ``[start:stop]``; `stop` is None for all that follow."""

    start: int
    stop: int | None
    keeps_nnz: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"[{self.start}:{'' if self.stop is None else self.stop}]"

    def shape(self, rows: int | None, cols: int | None) -> tuple[int | None, int | None]:
        """Return the shape of the result for a shape of the matrix; None is an unknown number."""
        if rows is not None:
            self._check(rows)
        stop = rows if self.stop is None else self.stop
        return None if stop is None else stop - self.start, cols

    def apply(self, matrix: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """Return the rows."""
        self._check(matrix.shape[0])
        return matrix[self.start : self.stop]

    def within(self, outer: Rows) -> Rows:
        """Merge with the slice before: ``[10:20][2:5]`` is ``[12:15]``."""
        if outer.stop is not None:
            self._check(outer.stop - outer.start)
        stop = outer.stop if self.stop is None else outer.start + self.stop
        return Rows(outer.start + self.start, stop)

    def _check(self, rows: int) -> None:
        if self.start >= rows or (self.stop or 0) > rows:
            raise ParameterError(f"{self} goes beyond the {rows} rows of the matrix", argument="name")


@dataclass(frozen=True)
class Arranged:
    """The suffixes ``.shuffled`` and ``.half``: rows and columns in an order that hides locality."""

    how: str
    keeps_nnz: ClassVar[bool] = True

    def __str__(self) -> str:
        return f".{self.how}"

    def shape(self, rows: int | None, cols: int | None) -> tuple[int | None, int | None]:
        """Return the shape of the result for a shape of the matrix; None is an unknown number."""
        return rows, cols

    def apply(self, matrix: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """Return the matrix in that order."""
        return arranged(matrix, self.how)


@dataclass(frozen=True)
class Reordered:
    """The suffix ``.reordered(ORDER)``: rows and columns of a square matrix in an order that finds locality."""

    order: str
    keeps_nnz: ClassVar[bool] = True

    def __str__(self) -> str:
        return f".reordered({self.order})"

    def shape(self, rows: int | None, cols: int | None) -> tuple[int | None, int | None]:
        """Return the shape of the result for a shape of the matrix; None is an unknown number."""
        return rows, cols

    def apply(self, matrix: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """Return the matrix in that order."""
        return reordered(matrix, self.order)


Step = Transpose | Rows | Arranged | Reordered


@dataclass(frozen=True)
class Call:
    """A construction and its parameters, in the order of its signature and without those that have their default."""

    construction: str
    parameters: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.construction}({','.join(f'{key}={_literal(v)}' for key, v in self.parameters.items())})"


@dataclass(frozen=True)
class Name:
    """A parsed name; ``str`` gives its canonical spelling."""

    base: Call | str
    steps: tuple[Step, ...] = ()

    def __str__(self) -> str:
        return f"{self.base}{''.join(map(str, self.steps))}"


def canonical(text: str) -> str:
    """Return the canonical spelling of the name of a matrix.

    Parameters
    ----------
    text : str
        A name, with or without spaces, default values, and suffixes that undo each other.

    Returns
    -------
    str
        Without spaces; the parameters of a construction by name, in the order of its signature, defaults left out.

    Raises
    ------
    ParameterError
        It is not a name, or an unknown construction, or parameters that the construction does not take.

    Examples
    --------
    >>> canonical("HB/west0479.T.T[0:100][10:20]")
    'HB/west0479[10:20]'
    """
    return str(parse(text))


def parse(text: str) -> Name:
    """Parse a name; the errors are those of `canonical`. Nothing in it is ever executed."""
    match = _SUFFIXED.fullmatch(text.strip())
    if match is None or not match["base"]:
        raise ParameterError(f"{text!r} is not the name of a matrix", argument="name")
    steps = _simplified([_step(suffix) for suffix in _SUFFIX.findall(match["suffixes"])])
    base = match["base"].strip()
    return Name(_call(base) if _CALL.fullmatch(base) else base, steps)


def is_plain(text: str) -> bool:
    """Return whether a name is a plain one: it neither ends in a suffix nor looks like a construction."""
    match = _SUFFIXED.fullmatch(text)
    return match is not None and match["base"] == text.strip() != "" and _CALL.fullmatch(text) is None


def closest(name: str, known: Iterable[str]) -> str:
    """Ask whether one of the most similar names is meant, in words that follow an error message."""
    known = list(known)
    last = name.lower().rpartition("/")[2]
    same = [other for other in known if other.lower().rpartition("/")[2] == last]
    found = list(dict.fromkeys([*same, *difflib.get_close_matches(name, known, n=5, cutoff=0.5)]))
    return f"; did you mean {', '.join(found[:5])}?" if found else ""


# ----- suffixes -----


def _step(suffix: str) -> Step:
    if suffix == ".T":
        return Transpose()
    if suffix in (".shuffled", ".half"):
        return Arranged(suffix[1:])
    if suffix.startswith(".reordered("):
        order = suffix[len(".reordered(") : -1].strip()
        if not permutations.is_symmetric(order):
            raise ParameterError(f"'{suffix}': the order '{order}' is one of rows only", argument="name")
        return Reordered(order)
    match = _ROWS.fullmatch(suffix)
    if match is None:
        raise ParameterError(f"'{suffix}' is not a range of rows such as [0:1024]", argument="name")
    rows = Rows(int(match[1] or 0), int(match[2]) if match[2] else None)
    if rows.stop is not None and rows.start >= rows.stop:
        raise ParameterError(f"'{suffix}' holds no row", argument="name")
    return rows


def _simplified(steps: list[Step]) -> tuple[Step, ...]:
    kept: list[Step] = []
    for step in steps:
        before = kept[-1] if kept else None
        if isinstance(step, Transpose) and isinstance(before, Transpose):
            kept.pop()
        elif isinstance(step, Rows) and isinstance(before, Rows):
            kept[-1] = step.within(before)
        elif step != Rows(0, None):
            kept.append(step)
    return tuple(kept)


# ----- constructions -----


def _call(text: str) -> Call:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ParameterError(
            f"'{text}' is not a construction such as rmat(scale=15,seed=3)", argument="name"
        ) from error
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        raise ParameterError(f"'{text}' is not a construction such as rmat(scale=15,seed=3)", argument="name")
    construction = _construction(tree.func.id)
    positional = [_value(node, text) for node in tree.args]
    named = {keyword.arg: _value(keyword.value, text) for keyword in tree.keywords if keyword.arg is not None}
    if len(named) < len(tree.keywords):  # one twice, or **something
        raise ParameterError(f"'{text}': parameters are given once, as name=value", argument="name")
    signature = inspect.signature(construction.function)
    try:
        bound = signature.bind(*positional, **named)
    except TypeError as error:
        known = ", ".join(signature.parameters)
        raise ParameterError(f"'{text}': {error}; its parameters: {known}", argument="name") from error
    values = {key: _typed(value, signature.parameters[key]) for key, value in bound.arguments.items()}
    defaults = construction.defaults
    return Call(construction.name, {key: value for key, value in values.items() if not _same(value, defaults[key])})


def _construction(name: str) -> constructions.Construction:
    if name not in constructions.names() and (hint := closest(name, constructions.names())):
        raise ParameterError(f"unknown construction '{name}'{hint}", argument="name")
    return constructions.find(name)


def _value(node: ast.expr, text: str) -> Any:
    try:
        value = ast.literal_eval(node)
        if _is_plain(value):
            return value
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        pass
    raise ParameterError(f"'{text}': {ast.unparse(node)} is not a number, a text or a tuple of them", argument="name")


def _is_plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    if isinstance(value, float) and not math.isfinite(value):  # 1e999 has no spelling of its own
        return False
    return value is None or isinstance(value, (bool, int, float, str))


def _typed(value: Any, parameter: inspect.Parameter) -> Any:
    """Write integers as floats, and lists as tuples, where the parameter has that type, so that a name is unique."""
    default = parameter.default
    wants_float = parameter.annotation in (float, "float") or type(default) is float
    if wants_float and type(value) is int:
        return float(value)
    return _as_tuple(value)


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, (list, tuple)) else value


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)


def _literal(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({','.join(map(_literal, value))}{',' if len(value) == 1 else ''})"
    return repr(value)
