"""Checks that the parameters of constructions share."""

from __future__ import annotations

import operator

from warploom.errors import ParameterError

__all__ = ["at_most", "integer_in"]


def integer_in(name: str, value: int, low: int, high: int) -> int:
    """Return an integer within [low, high]; `ParameterError` names the parameter."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ParameterError(f"{name} has to be an integer, not {value!r}", argument=name) from None
    if not low <= number <= high:
        raise ParameterError(f"{name} has to be in [{low}, {high}], not {number}", argument=name)
    return number


def at_most(what: str, count: int, limit: int, argument: str) -> None:
    """Raise `ParameterError` for the parameter that makes the matrix too large."""
    if count > limit:
        raise ParameterError(f"{count} {what} are more than {limit}", argument=argument)
