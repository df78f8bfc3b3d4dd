"""Candidates: operation + row permutation + format + kernel + parameters, under one stable name.

A name reads ``op/permutation/format/kernel[parameter=value,...]``, for example
``spmm/lpt/csr/c_stationary`` or ``spmm/none/csr/row_split[threads_per_row=8]``. Parameters at their default are left
out, and the others come in the kernel's order, so that equal candidates have equal names.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from warploom import _core
from warploom._core import Candidate, Kernel, Parameter
from warploom.errors import ParameterError

__all__ = ["Candidate", "Kernel", "Parameter", "candidates", "find_kernel", "kernels", "parse"]

OPERATIONS = ("spmm", "spmv")

find_kernel = _core.find_kernel


@functools.cache
def kernels(op: str = "spmm") -> tuple[Kernel, ...]:
    """Return the registered kernels of an operation.

    Raises
    ------
    ParameterError
        For an unknown operation.
    """
    return _core.kernels(op)


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

    Examples
    --------
    >>> from warploom.candidates import parse
    >>> candidate = parse("spmv/none/csr/vector[threads_per_row=8]")
    >>> candidate.permutation, candidate.kernel.format, candidate.kernel.name
    ('none', 'csr', 'vector')
    """
    if not isinstance(name, str):
        raise ParameterError(
            f"{name!r} is not a candidate; expected op/permutation/format/kernel[parameter=value,...]",
            argument="candidate",
        )
    return _core.parse_candidate(name)


def candidates(
    op: str = "spmm",
    *,
    layout: str | None = None,
    device: str = "cuda",
    dtype: str | None = None,
    match: str | Sequence[str] | None = None,
    precision: str = "full",
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
    dtype : {"float16", "bfloat16", "float32", "float64"}, optional
        Only candidates that work on values of this type.
    match : str or sequence of str, optional
        Shell-style patterns; a name is kept if one of them matches it.
    precision : {"full", "tf32"}
        With ``"tf32"``, also candidates that round float32 to TF32; see `warploom.plan`.

    Returns
    -------
    list of str
        In the order of the registry, without repetition.

    Raises
    ------
    ParameterError
        For an unknown operation, layout, device, dtype or precision, or patterns that are not strings.

    Examples
    --------
    >>> import warploom as wl
    >>> wl.candidates(layout="column", device="cpu", match="spmm/lpt/?csr/c_stationary")
    ['spmm/lpt/dcsr/c_stationary']
    """
    patterns = checked_patterns(match, "match")
    names = (c.name for c in _core.enumerate_candidates(op, layout, device, dtype, precision))
    return [name for name in names if _core.matches(name, patterns)]


def matches(name: str, patterns: str | Iterable[str] | None) -> bool:
    """Whether a name matches one of the shell-style patterns (``[`` and ``]`` are literal)."""
    listed = [patterns] if isinstance(patterns, str) else patterns
    return _core.matches(name, None if listed is None else list(listed))


def checked_patterns(patterns: str | Iterable[str] | None, argument: str) -> list[str] | None:
    """Return patterns as a list; `ParameterError` if they are not strings."""
    if patterns is None:
        return None
    listed = [patterns] if isinstance(patterns, str) else list(patterns) if isinstance(patterns, Iterable) else [None]
    if not all(isinstance(pattern, str) for pattern in listed):
        raise ParameterError(f"{argument} must be a pattern or several, got {patterns!r}", argument=argument)
    return listed
