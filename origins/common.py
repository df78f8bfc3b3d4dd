"""What the scripts of this folder share: how a source of matrices is declared."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse

__all__ = ["SOURCES", "Made", "Matrix", "Source", "pattern_arrays", "source", "versions"]


@dataclass
class Matrix:
    """A matrix that follows from the arrays of a file."""

    name: str
    family: str
    kind: str
    summary: str
    recipe: str
    made: Callable[[], scipy.sparse.sparray] | None = None
    """The matrix as the program has it, to compare patterns with; None where the arrays are that pattern."""


@dataclass
class Made:
    """A file and its matrices."""

    file: str
    program: str
    arrays: dict[str, np.ndarray]
    matrices: list[Matrix] = field(default_factory=list)


Source = Callable[[], Iterator[Made]]
SOURCES: dict[str, Source] = {}


def source(function: Source) -> Source:
    """Register a function that runs programs and yields files."""
    SOURCES[function.__name__.replace("_", "-")] = function
    return function


def versions(*packages: str) -> str:
    """Name Python packages with their versions."""
    return ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)


def pattern_arrays(A: scipy.sparse.sparray, *, symmetric: bool = False) -> dict[str, np.ndarray]:
    """Return the arrays of the recipes ``pattern`` and ``pattern symmetric``."""
    A = scipy.sparse.csr_array(A)
    A.sum_duplicates()
    if symmetric:
        T = A.T.tocsr()
        T.sort_indices()
        if not (np.array_equal(T.indptr, A.indptr) and np.array_equal(T.indices, A.indices)):
            raise ValueError("the pattern is not symmetric")
        A = scipy.sparse.csr_array(scipy.sparse.triu(A, format="csr"))
        A.sort_indices()
    return {"shape": np.array(A.shape), "lengths": np.diff(A.indptr), "columns": A.indices}
