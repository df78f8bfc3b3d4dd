"""From the ends of edges to the adjacency of a graph."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse

from warploom.corpus.constructions import _random
from warploom.corpus.constructions._assemble import from_coordinates

__all__ = ["directed", "undirected"]


def undirected(
    n: int, one: npt.NDArray[np.int64], other: npt.NDArray[np.int64], *, shuffle: int = 0, both_ways: bool = False
) -> scipy.sparse.csr_array:
    """Make a symmetric matrix without a diagonal from the ends of edges, which may repeat.

    `both_ways` says that each edge is listed from both its ends; `shuffle`, unless 0, is the seed of a relabelling.
    """
    one, other = _without_loops(one, other)
    if shuffle:
        label = _random.permutation(shuffle, n, stream=_RELABELLING)
        one, other = label[one], label[other]
    return from_coordinates((n, n), one, other, symmetric=not both_ways, seed=shuffle)


def directed(
    n: int, tail: npt.NDArray[np.int64], head: npt.NDArray[np.int64], *, shuffle: int = 0
) -> scipy.sparse.csr_array:
    """Make a matrix without a diagonal from the ends of arcs, which may repeat; `shuffle` as for `undirected`."""
    return undirected(n, tail, head, shuffle=shuffle, both_ways=True)


def _without_loops(
    one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    apart = one != other
    return one[apart], other[apart]


_RELABELLING = 1000
"""Stream of random numbers that no construction draws from for anything else."""
