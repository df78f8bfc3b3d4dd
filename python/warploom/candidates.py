"""Candidates: operation + row permutation + format + kernel + parameters, under one stable name.

A name reads ``op/permutation/format/kernel[parameter=value,...]``, for example
``spmm/lpt/csr/c_stationary`` or ``spmm/none/csr/row_split[threads_per_row=8]``. Parameters at their default are left
out, and the others come in the kernel's order, so that equal candidates have equal names.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import itertools
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from warploom import _core, permutations
from warploom.errors import ParameterError

__all__ = ["Candidate", "Kernel", "Parameter", "candidates", "find_kernel", "kernels", "parse"]

OPERATIONS = ("spmm", "spmv")

_NAME = re.compile(
    r"(?P<op>[^/\[\]]+)/(?P<permutation>[^/\[\]]+)/(?P<format>[^/\[\]]+)/(?P<kernel>[^/\[\]]+)"
    r"(\[(?P<parameters>[^\[\]]*)\])?"
)


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel."""

    name: str
    default: int
    values: tuple[int, ...]
    """Accepted values."""
    tried: tuple[int, ...]
    """The values that selection by measurement tries on a GPU."""
    on_cpu: bool
    """Whether the CPU executor depends on it."""
    meaning: str


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One algorithm for one operation on one format."""

    op: str
    format: str
    name: str
    summary: str
    layouts: tuple[str, ...]
    """Layouts of the dense operands it works on: ``"row"``, ``"column"``."""
    parameters: tuple[Parameter, ...]
    permutes: bool
    """Whether a row permutation makes sense with it."""
    reproducible: bool
    """Whether every run gives bitwise the same result."""
    devices: tuple[str, ...]
    """Where it runs: ``"cuda"``, ``"cpu"``."""
    dtypes: tuple[str, ...]
    """Value types it works on."""
    from_device: bool
    """Whether preparing it on a GPU starts from the CSR matrix in the memory of that GPU."""

    def complete(self, given: Mapping[str, int]) -> dict[str, int]:
        """All parameters, defaults filled in.

        Raises
        ------
        ParameterError
            For a parameter the kernel does not have or a value it does not accept.
        """
        known = {p.name: p for p in self.parameters}
        for name, value in given.items():
            if name not in known:
                names = ", ".join(known) or "none"
                raise ParameterError(
                    f"kernel {self.format}/{self.name} has no parameter '{name}'; it has: {names}", argument=name
                )
            if not _is_integer(value) or value not in known[name].values:
                raise ParameterError(
                    f"{name}={value} is not one of {', '.join(map(str, known[name].values))}", argument=name
                )
        return {p.name: int(given.get(p.name, p.default)) for p in self.parameters}

    def settings(self, device: str) -> Iterator[dict[str, int]]:
        """Every setting of the parameters that selection by measurement tries on this device."""
        axes = [p.tried if device == "cuda" or p.on_cpu else (p.default,) for p in self.parameters]
        for values in itertools.product(*axes):
            yield dict(zip((p.name for p in self.parameters), values, strict=True))


@dataclasses.dataclass(frozen=True)
class Candidate:
    """Everything needed to run a product, except the matrix.

    Compares and hashes by name.
    """

    kernel: Kernel
    permutation: str
    parameters: tuple[tuple[str, int], ...]

    @classmethod
    def make(cls, kernel: Kernel, permutation: str = "none", parameters: Mapping[str, int] | None = None) -> Candidate:
        """Complete the parameters and put them into the kernel's order.

        Raises
        ------
        ParameterError
            For a parameter the kernel does not have, a value it does not accept, or a row permutation of a kernel that
            takes none.
        """
        if permutation != "none" and not kernel.permutes:
            raise ParameterError(
                f"kernel {kernel.format}/{kernel.name} does not take a row permutation, got '{permutation}'",
                argument="candidate",
            )
        return cls(kernel, permutation, tuple(kernel.complete(parameters or {}).items()))

    @property
    def name(self) -> str:
        """The stable name."""
        defaults = {p.name: p.default for p in self.kernel.parameters}
        changed = ",".join(f"{name}={value}" for name, value in self.parameters if value != defaults[name])
        base = f"{self.kernel.op}/{self.permutation}/{self.kernel.format}/{self.kernel.name}"
        return f"{base}[{changed}]" if changed else base

    @property
    def has_defaults(self) -> bool:
        """Whether all parameters are at their default."""
        return all(p.default == value for p, (_, value) in zip(self.kernel.parameters, self.parameters, strict=True))

    def __str__(self) -> str:
        return self.name


@functools.cache
def kernels(op: str = "spmm") -> tuple[Kernel, ...]:
    """Return the registered kernels of an operation.

    Raises
    ------
    ParameterError
        For an unknown operation.
    """
    if op not in OPERATIONS:
        raise ParameterError(f"unknown operation '{op}'; known: {', '.join(OPERATIONS)}", argument="op")
    return tuple(
        Kernel(
            op=op,
            format=row["format"],
            name=row["name"],
            summary=row["summary"],
            layouts=tuple(row["layouts"]),
            parameters=tuple(
                Parameter(p["name"], p["default"], tuple(p["values"]), tuple(p["tried"]), p["on_cpu"], p["meaning"])
                for p in row["parameters"]
            ),
            permutes=row["permutes"],
            reproducible=row["reproducible"],
            devices=tuple(row["devices"]),
            dtypes=tuple(row["dtypes"]),
            from_device=row["from_device"],
        )
        for row in _core.kernels(op)
    )


def find_kernel(op: str, format: str, name: str) -> Kernel:
    """Return the kernel of that name; `ParameterError` lists the known ones."""
    for kernel in kernels(op):
        if (kernel.format, kernel.name) == (format, name):
            return kernel
    known = ", ".join(f"{k.format}/{k.name}" for k in kernels(op))
    raise ParameterError(f"unknown {op} kernel '{format}/{name}'; known: {known}", argument="candidate")


def parse(name: str) -> Candidate:
    """Turn a name into a candidate.

    Parameters
    ----------
    name : str
        ``op/permutation/format/kernel[parameter=value,...]``.

    Raises
    ------
    ParameterError
        If the name is not of this form or names something unknown.
    """
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        raise ParameterError(
            f"{name!r} is not a candidate; expected op/permutation/format/kernel[parameter=value,...]",
            argument="candidate",
        )
    given: dict[str, int] = {}
    for setting in filter(None, (match["parameters"] or "").split(",")):
        key, _, value = (part.strip() for part in setting.partition("="))
        if key in given:
            raise ParameterError(f"'{name}' gives {key} twice", argument=key)
        try:
            given[key] = int(value)
        except ValueError:
            raise ParameterError(f"'{setting}' in '{name}' is not parameter=integer", argument="candidate") from None
    if match["permutation"] not in permutations.names():
        known = ", ".join(permutations.names())
        raise ParameterError(f"unknown row permutation '{match['permutation']}'; known: {known}", argument="candidate")
    return Candidate.make(find_kernel(match["op"], match["format"], match["kernel"]), match["permutation"], given)


def enumerate_candidates(op: str, layout: str | None, device: str, dtype: str | None = None) -> Iterator[Candidate]:
    """Every tried setting in the original order, then every permutation with default parameters."""
    chosen = [
        k
        for k in kernels(op)
        if (layout is None or layout in k.layouts) and device in k.devices and (dtype is None or dtype in k.dtypes)
    ]
    for kernel in chosen:
        for setting in kernel.settings(device):
            yield Candidate.make(kernel, "none", setting)
    for kernel in chosen:
        if kernel.permutes:
            for permutation in permutations.names():
                if permutation != "none":
                    yield Candidate.make(kernel, permutation)


def candidates(
    op: str = "spmm",
    *,
    layout: str | None = None,
    device: str = "cuda",
    dtype: str | None = None,
    match: str | Sequence[str] | None = None,
) -> list[str]:
    """Names of the registered candidates.

    Parameters
    ----------
    op : {"spmm", "spmv"}
        The operation.
    layout : {"row", "column"}, optional
        Only candidates that work on dense operands of this layout (a vector counts as one column).
    device : {"cuda", "cpu"}
        On the CPU, parameters that only concern a GPU are left at their default.
    dtype : {"float16", "float32", "float64"}, optional
        Only candidates that work on values of this type.
    match : str or sequence of str, optional
        Shell-style patterns; a name is kept if one of them matches it.

    Returns
    -------
    list of str
        In the order of the registry, without repetition.

    Raises
    ------
    ParameterError
        For an unknown operation, layout, device or dtype, or patterns that are not strings.

    Examples
    --------
    >>> import warploom as wl
    >>> wl.candidates(layout="column", device="cpu", match="spmm/lpt/?csr/c_stationary")
    ['spmm/lpt/dcsr/c_stationary']
    """
    if layout not in (None, "row", "column"):
        raise ParameterError(f"layout must be 'row' or 'column', got {layout!r}", argument="layout")
    if device not in ("cuda", "cpu"):
        raise ParameterError(f"device must be 'cuda' or 'cpu', got {device!r}", argument="device")
    if dtype not in (None, "float16", "float32", "float64"):
        raise ParameterError(f"dtype must be 'float16', 'float32' or 'float64', got {dtype!r}", argument="dtype")
    match = checked_patterns(match, "match")
    names = dict.fromkeys(c.name for c in enumerate_candidates(op, layout, device, dtype))
    return [name for name in names if matches(name, match)]


def matches(name: str, patterns: str | Iterable[str] | None) -> bool:
    """Whether a name matches one of the shell-style patterns (``[`` and ``]`` stand for themselves)."""
    if patterns is None:
        return True
    if isinstance(patterns, str):
        patterns = [patterns]
    return any(fnmatch.fnmatchcase(name, re.sub(r"\[", "[[]", pattern)) for pattern in patterns)


def checked_patterns(patterns: str | Iterable[str] | None, argument: str) -> list[str] | None:
    """Return patterns as a list; `ParameterError` if they are not strings."""
    if patterns is None:
        return None
    listed = [patterns] if isinstance(patterns, str) else list(patterns) if isinstance(patterns, Iterable) else [None]
    if not all(isinstance(pattern, str) for pattern in listed):
        raise ParameterError(f"{argument} must be a pattern or several, got {patterns!r}", argument=argument)
    return listed


def _is_integer(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True
