"""Small matrices that are constructed exactly, so that everything can be tried without a download.

Those that carry the name of a matrix in the SuiteSparse collection are that matrix: same size, nonzeros and
pattern.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse

from warploom.errors import ParameterError

__all__ = ["describe", "load", "names"]


def names() -> list[str]:
    """List the examples.

    Returns
    -------
    list of str
    """
    return list(_EXAMPLES)


def describe(name: str) -> str:
    """Say in one sentence what an example is.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    str

    Raises
    ------
    ParameterError
        There is no such example.
    """
    return _find(name).summary


def load(name: str) -> scipy.sparse.csr_array:
    """Construct an example.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    scipy.sparse.csr_array, shape (m, n)
        With float64 values, sorted column indices and no duplicates; the same in every call.

    Raises
    ------
    ParameterError
        There is no such example.

    Examples
    --------
    >>> from warploom import examples
    >>> "gr_30_30" in examples.names()
    True
    >>> examples.load("gr_30_30").shape
    (900, 900)
    """
    matrix = scipy.sparse.csr_array(_find(name).construct(), dtype=np.float64)
    matrix.sort_indices()
    return matrix


class _Example(NamedTuple):
    summary: str
    construct: Callable[[], Any]


def _find(name: str) -> _Example:
    try:
        return _EXAMPLES[name]
    except KeyError:
        raise ParameterError(f"unknown example {name!r}; known: {', '.join(_EXAMPLES)}", argument="name") from None


def _path(size: int) -> Any:
    """Adjacency of a path: ones beside the diagonal."""
    return scipy.sparse.diags_array([np.ones(size - 1)] * 2, offsets=[-1, 1], shape=(size, size))


def _nine_point_grid(side: int) -> Any:
    """Nine-point star on a side x side grid: 8 on the diagonal, -1 for each of the up to eight neighbours."""
    reach = _path(side) + scipy.sparse.eye_array(side)
    return 9 * scipy.sparse.eye_array(side * side) - scipy.sparse.kron(reach, reach)


def _five_point_grid(side: int) -> Any:
    """Five-point Poisson stencil on a side x side grid: 4 on the diagonal, -1 for each neighbour."""
    one = scipy.sparse.eye_array(side)
    return (
        4 * scipy.sparse.eye_array(side * side)
        - scipy.sparse.kron(one, _path(side))
        - scipy.sparse.kron(_path(side), one)
    )


def _mycielskian(order: int) -> Any:
    """Mycielski's triangle-free graph of chromatic number `order`, from an edge by repeated construction."""
    graph = scipy.sparse.coo_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
    for _ in range(order - 2):
        hub = scipy.sparse.coo_array(np.ones((graph.shape[0], 1)))
        graph = scipy.sparse.block_array([[graph, graph, None], [graph, None, hub], [None, hub.T, None]])
    return graph


def _trefethen(size: int) -> Any:
    """Primes on the diagonal, ones at distances 2^p from it (SIAM's hundred-digit challenge, problem 7)."""
    offsets = [2**power for power in range(size.bit_length()) if 2**power < size]
    ones = [np.ones(size - offset) for offset in offsets]
    return scipy.sparse.diags_array(
        [_primes(size), *ones, *ones],
        offsets=[0, *offsets, *(-offset for offset in offsets)],
        shape=(size, size),
    )


def _primes(count: int) -> npt.NDArray[np.float64]:
    limit = max(12, int(count * (np.log(count + 2) + np.log(np.log(count + 2))) + 3))  # Rosser's bound
    sieve = np.ones(limit + 1, dtype=bool)
    sieve[:2] = False
    for factor in range(2, int(limit**0.5) + 1):
        if sieve[factor]:
            sieve[factor * factor :: factor] = False
    return np.flatnonzero(sieve)[:count].astype(np.float64)


def _arrow(size: int) -> Any:
    """Fill the first row, the first column and the diagonal: one giant row beside short ones."""
    rest = scipy.sparse.coo_array(np.ones((1, size - 1)))
    diagonal = scipy.sparse.eye_array(size - 1) * size
    return scipy.sparse.block_array([[scipy.sparse.coo_array([[float(size)]]), rest], [rest.T, diagonal]])


def _hypersparse(size: int, step: int) -> Any:
    """Two nonzeros in every step-th row, none in the others."""
    row = np.arange(0, size, step)
    col = np.concatenate([row, (row * 7 + 1) % size])
    return scipy.sparse.coo_array((np.arange(1.0, col.size + 1), (np.tile(row, 2), col)), shape=(size, size))


def _zipf(size: int, longest: int) -> Any:
    """Row lengths longest / rank, ranks scattered over the rows, columns distributed evenly: a skewed matrix."""
    rank = np.arange(size) * 769 % size + 1  # 769 is coprime to any power of two: every rank occurs once
    lengths = np.maximum(1, longest // rank)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    within = np.arange(indptr[-1]) - np.repeat(indptr[:-1], lengths)
    columns = (np.repeat(np.arange(size) * 31, lengths) + within * 1021) % size
    return scipy.sparse.csr_array((1.0 / (1.0 + within), columns, indptr), shape=(size, size))


_EXAMPLES: dict[str, _Example] = {
    "gr_30_30": _Example("nine-point star on a 30 x 30 grid (SuiteSparse HB/gr_30_30)", lambda: _nine_point_grid(30)),
    "poisson_64": _Example("five-point Poisson stencil on a 64 x 64 grid", lambda: _five_point_grid(64)),
    "mycielskian10": _Example(
        "triangle-free graph of chromatic number 10 (SuiteSparse Mycielski/mycielskian10)",
        lambda: _mycielskian(10),
    ),
    "Trefethen_2000": _Example(
        "primes on the diagonal, ones at distances 2^p (SuiteSparse JGD_Trefethen/Trefethen_2000)",
        lambda: _trefethen(2000),
    ),
    "zipf_4096": _Example(
        "row lengths as in Zipf's law, the longest 2048, scattered over the rows", lambda: _zipf(4096, 2048)
    ),
    "arrow_4096": _Example("one full row, one full column and the diagonal", lambda: _arrow(4096)),
    "hypersparse_16384": _Example(
        "two nonzeros in every 16th row, none in the others", lambda: _hypersparse(16384, 16)
    ),
}
