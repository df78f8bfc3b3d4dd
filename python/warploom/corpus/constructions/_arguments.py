"""Checks of the parameters of constructions."""

from __future__ import annotations

import operator

from warploom.errors import ParameterError

__all__ = ["at_least", "at_most", "integer_in", "one_of", "size_at_most"]


def at_least(bound: int, **values: int) -> None:
    """Raise `ParameterError` for the first of the named values that is not an integer or is below the bound."""
    for name, value in values.items():
        if not isinstance(value, int):
            raise ParameterError(f"{name} has to be an integer, not {value!r}", argument=name)
        if value < bound:
            raise ParameterError(f"{name} has to be at least {bound}, not {value}", argument=name)


def at_most(bound: int, **values: int) -> None:
    """Raise `ParameterError` for the first of the named values above the bound."""
    for name, value in values.items():
        if value > bound:
            raise ParameterError(f"{name} has to be at most {bound}, not {value}", argument=name)


def one_of(choices: tuple[int, ...], **values: int) -> None:
    """Raise `ParameterError` for the first of the named values that is not one of the choices."""
    for name, value in values.items():
        if value not in choices:
            raise ParameterError(f"{name} has to be one of {', '.join(map(str, choices))}, not {value}", argument=name)


def integer_in(name: str, value: int, low: int, high: int) -> int:
    """Return an integer within [low, high]; `ParameterError` names the parameter."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ParameterError(f"{name} has to be an integer, not {value!r}", argument=name) from None
    if not low <= number <= high:
        raise ParameterError(f"{name} has to be in [{low}, {high}], not {number}", argument=name)
    return number


def size_at_most(what: str, count: int, limit: int, argument: str) -> None:
    """Raise `ParameterError` for the parameter that makes the matrix too large."""
    if count > limit:
        raise ParameterError(f"{count} {what} are more than {limit}", argument=argument)
