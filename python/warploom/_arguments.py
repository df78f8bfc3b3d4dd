"""What callers of `warploom.plan` ask for, apart from the matrix: checked, with errors that name the argument."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from warploom import _bfloat16, _device, paper_models, profiles
from warploom.candidates import candidates, matches, parse
from warploom.errors import DtypeError, ParameterError

__all__ = [
    "check_full_precision",
    "check_has_gpu",
    "check_selection",
    "checked_calls",
    "checked_model",
    "checked_precision",
    "integers",
    "one_of",
    "positive",
    "shape_of_operands",
    "value_type",
]


def shape_of_operands(op: str, k: Any, layout: str, cache: str) -> tuple[int, str]:
    """Check the description of the operands; return how many columns they have, and their layout."""
    if op == "spmv" and _columns(1 if k is None else k) != 1:
        raise ParameterError(f"k must be 1 for SpMV, got {k}; op='spmm' multiplies several columns", argument="k")
    one_of("op", op, ("spmm", "spmv"))
    one_of("layout", layout, ("row", "column"))
    one_of("cache", cache, ("warm", "cold"))
    return (1, "column") if op == "spmv" else (_columns(k), layout)


def checked_model(name: str | None) -> str:
    """Check the name of a model that predicts."""
    if name is None:
        return profiles.BLEND
    known = (
        profiles.BLEND,
        *(kind for kind in profiles.MODELS if kind not in paper_models.names()),
        *paper_models.names(),
    )
    if name not in known:
        raise ParameterError(f"model must be one of {', '.join(known)}, got {name!r}", argument="model")
    return name


def checked_precision(name: str | None) -> str | None:
    """Check the precision of products in float32; None leaves it as it is."""
    return None if name is None else one_of("precision", name, ("full", "tf32"))


def check_selection(select: str, patterns: Sequence[str] | None, target: _device.Device) -> None:
    """Refuse the name of no candidate, and patterns that match none for any operation."""
    if select not in ("auto", "predict", "measure"):
        try:
            parse(select)
        except ParameterError as error:
            raise ParameterError(str(error), argument="select") from None
    elif patterns is not None:
        listed = (name for op in ("spmm", "spmv") for name in candidates(op, device=target.kind, precision="tf32"))
        if not any(map(_is_candidate, patterns)) and not any(matches(name, patterns) for name in listed):
            raise ParameterError(f"no candidate matches {list(patterns)}", argument="candidates")


def _is_candidate(name: str) -> bool:
    try:
        parse(name)
    except ParameterError:
        return False
    return True


def check_full_precision(argument: str, names: Sequence[str]) -> None:
    """Refuse names of candidates that round, where the caller has asked for full precision in words."""
    for name in names:
        # What is no name is a pattern.
        if _is_candidate(name) and (kernel := parse(name).kernel).precision != "full":
            raise ParameterError(
                f"{name} rounds to {kernel.precision.upper()}, and precision is 'full'", argument=argument
            )


def check_has_gpu(model: str, target: _device.Device) -> None:
    """Refuse the model of a paper where products are computed on the CPU."""
    if target.kind == "cpu":
        raise ParameterError(
            f"{model} predicts for GPUs, and the plan is for the CPU; warploom.predict does without a GPU",
            argument="model",
        )


def checked_calls(calls: float) -> float:
    """Check how often a plan will be used, which may be infinitely often."""
    return positive("calls", calls)


def positive(name: str, value: float) -> float:
    """Check a number above 0; infinity is one."""
    if not (isinstance(value, (int, float)) and value > 0):
        raise ParameterError(f"{name} must be a positive number, got {value!r}", argument=name)
    return float(value)


def integers(name: str, values: Any) -> np.ndarray[Any, Any]:
    """Return a one-dimensional array of integers as int32."""
    given = np.asarray(values)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise ParameterError(f"{name} must be a sequence of integers, got {values!r}", argument=name)
    return given.astype(np.int32)


def value_type(dtype: Any) -> np.dtype[Any] | None:
    """Return the type of NumPy for what stands for a value type; None leaves it to the matrix."""
    if dtype is None:
        return None
    try:
        resolved = _bfloat16.as_dtype(dtype)
    except TypeError:
        raise DtypeError(f"'{dtype}' is not a NumPy dtype", argument="dtype") from None
    for accepted in (np.dtype(np.float16), _bfloat16.DTYPE, np.dtype(np.float32), np.dtype(np.float64)):
        if resolved == accepted:
            return accepted
    raise DtypeError(f"dtype must be float16, bfloat16, float32 or float64, got {resolved}", argument="dtype")


def _columns(k: Any) -> int:
    if k is None:
        raise ParameterError("k, the number of columns of B, must be given", argument="k")
    try:
        columns = int(operator.index(k))
    except TypeError:
        raise ParameterError(f"k must be an integer, got {k!r}", argument="k") from None
    if not 1 <= columns < 2**31:
        raise ParameterError(f"k must be at least 1 and below 2**31, got {columns}", argument="k")
    return columns


def one_of(name: str, value: str, accepted: Sequence[str] | Mapping[str, Any]) -> str:
    """Check a word that a parameter takes."""
    if value not in accepted:
        raise ParameterError(f"{name} must be one of {', '.join(accepted)}, got {value!r}", argument=name)
    return value
