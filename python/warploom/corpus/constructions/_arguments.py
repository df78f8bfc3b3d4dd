"""Checks of the parameters of constructions."""

from __future__ import annotations

from warploom.errors import ParameterError

__all__ = ["at_least", "at_most", "one_of"]


def at_least(bound: int, **values: int) -> None:
    """Raise `ParameterError` for the first of the named values that is no integer or is below the bound."""
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
    """Raise `ParameterError` for the first of the named values that is none of the choices."""
    for name, value in values.items():
        if value not in choices:
            raise ParameterError(f"{name} has to be one of {', '.join(map(str, choices))}, not {value}", argument=name)
