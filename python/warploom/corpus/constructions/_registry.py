"""The registry of constructions: a decorated function is one family of matrices."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import scipy.sparse

from warploom.errors import ParameterError

__all__ = ["Construction", "construct", "construction", "find", "names"]

_Function = TypeVar("_Function", bound=Callable[..., scipy.sparse.csr_array])
_REGISTRY: dict[str, Construction] = {}


@dataclass(frozen=True)
class Construction:
    """A family of matrices that follow from a definition and a few integers."""

    name: str
    """Of the function, and so of its matrices: ``rmat`` makes ``rmat(scale=15,seed=3)``."""
    family: str
    """Family of the matrices; splits that hold out families hold out all matrices of the same family."""
    kind: str
    """As the SuiteSparse collection would call it, such as ``"2D/3D problem"``."""
    function: Callable[..., scipy.sparse.csr_array]

    @property
    def summary(self) -> str:
        """The first line of the documentation."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    @property
    def defaults(self) -> dict[str, Any]:
        """Parameters with their default, or `inspect.Parameter.empty` where one has to be given."""
        return {name: p.default for name, p in inspect.signature(self.function).parameters.items()}


def construction(*, family: str, kind: str) -> Callable[[_Function], _Function]:
    """Register a function of integers (or text) that returns a square or rectangular `csr_array`.

    Its matrices have sorted column indices without repetition, int32 indices where they fit, and float64 values:
    those of the definition where it gives values, else uniform in [0.5, 1.5).
    """

    def register(function: _Function) -> _Function:
        name = function.__name__
        if name in _REGISTRY:
            raise ValueError(f"there are two constructions called '{name}'")
        _REGISTRY[name] = Construction(name, family, kind, function)
        return function

    return register


def names() -> list[str]:
    """List the constructions."""
    return list(_REGISTRY)


def find(name: str) -> Construction:
    """Return a construction; `ParameterError` lists the known ones."""
    if name not in _REGISTRY:
        raise ParameterError(f"unknown construction '{name}'; known: {', '.join(_REGISTRY)}", argument="name")
    return _REGISTRY[name]


def construct(name: str, **parameters: Any) -> scipy.sparse.csr_array:
    """Make a matrix."""
    chosen = find(name)
    unknown = [p for p in parameters if p not in chosen.defaults]
    missing = [p for p, value in chosen.defaults.items() if value is inspect.Parameter.empty and p not in parameters]
    for problem, found in (("does not take", unknown), ("needs", missing)):
        if found:
            known = ", ".join(chosen.defaults)
            raise ParameterError(f"{name} {problem} {', '.join(found)}; its parameters: {known}", argument=found[0])
    return chosen.function(**parameters)
