"""Boundary matrices of simplicial complexes.

A row is a face, an entry one of the faces that it loses a vertex for: (-1)**j where it loses vertex j of its vertices
in ascending order. Faces are in lexicographic order of their vertices. The collection has the same matrices, some of
them with the faces in another order.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import scipy.sparse

from warploom.corpus.constructions._arguments import integer_in, size_at_most
from warploom.corpus.constructions._assemble import from_rows
from warploom.corpus.constructions._registry import construction
from warploom.corpus.constructions._subsets import subsets
from warploom.errors import ParameterError

__all__ = ["chessboard_complex", "matching_complex", "not_connected_complex"]

_MOST_FACES = 2 * 10**6


@construction(family="simplicial complex", kind="combinatorial problem")
def chessboard_complex(m: int, n: int, dimension: int) -> scipy.sparse.csr_array:
    """Boundary matrix of the complex of rooks on an m x n board that do not attack each other.

    Parameters
    ----------
    m, n : int
        Sides of the board, from 2 to 20.
    dimension : int
        Dimension of the faces, one less than their rooks: from 1 to the shorter side less 1, and with 2 * 10**6 faces
        of it or a smaller dimension at most.

    Returns
    -------
    scipy.sparse.csr_array
        Of integers; ``JGD_Homology/ch<m>-<n>-b<dimension>`` of the collection up to the order of its rows and columns.
    """
    integer_in("m", m, 2, 20)
    integer_in("n", n, 2, 20)
    integer_in("dimension", dimension, 1, min(m, n) - 1)
    rooks = dimension + 1
    faces = (math.comb(m, r) * math.comb(n, r) * math.factorial(r) for r in range(1, rooks + 1))
    size_at_most("faces", max(faces), _MOST_FACES, "dimension")
    row, column = np.divmod(np.arange(m * n), n)
    peaceful = (row[:, None] != row) & (column[:, None] != column)
    return _boundary(*_cliques(peaceful, rooks), m * n)


@construction(family="simplicial complex", kind="combinatorial problem")
def matching_complex(n: int, dimension: int, size: int = 2) -> scipy.sparse.csr_array:
    """Boundary matrix of the complex of pairwise disjoint subsets of n points.

    Parameters
    ----------
    n : int
        Points, from 4 to 20.
    dimension : int
        Dimension of the faces, one less than their subsets: at least 1, and with 2 * 10**6 faces of it or a
        smaller dimension at most.
    size : int
        Points of a subset, from 1 to n // 2; 2 makes the matchings of a complete graph.

    Returns
    -------
    scipy.sparse.csr_array
        Of integers; ``JGD_Homology/mk<n>-b<dimension>`` of the collection up to the order of its rows and columns,
        and with n = 13 and size = 3 its ``shar_te2-b<dimension>`` and ``m133-b3``.
    """
    integer_in("n", n, 4, 20)
    integer_in("size", size, 1, n // 2)
    integer_in("dimension", dimension, 1, n // size - 1)
    count = dimension + 1
    size_at_most("faces", max(_count_matchings(n, size, c) for c in range(1, count + 1)), _MOST_FACES, "dimension")
    blocks = subsets(n, size)
    masks = (1 << blocks).sum(axis=1)
    return _boundary(*_cliques((masks[:, None] & masks) == 0, count), len(blocks))


@construction(family="simplicial complex", kind="combinatorial problem")
def not_connected_complex(n: int, connectivity: int, dimension: int) -> scipy.sparse.csr_array:
    """Boundary matrix of the complex of graphs on n vertices that are not i-connected.

    A graph is i-connected if it has more than i vertices and stays connected without any i - 1 of them.

    Parameters
    ----------
    n : int
        Vertices of the graphs, from 3 to 7. Their edges are the vertices of the complex.
    connectivity : int
        i, from 1 to n - 1.
    dimension : int
        Dimension of the faces, one less than the edges of the graphs: at least 1, at most n choose 2 less 1.

    Returns
    -------
    scipy.sparse.csr_array
        Of integers; ``JGD_Homology/n<connectivity>c<n>-b<dimension>`` of the collection for connectivity 2 and 3, up to
        the order of its rows and columns.
    """
    integer_in("n", n, 3, 7)
    integer_in("connectivity", connectivity, 1, n - 1)
    edges = subsets(n, 2)
    integer_in("dimension", dimension, 1, len(edges) - 1)
    upper = _not_connected(n, connectivity, edges, dimension + 1)
    if not len(upper):
        raise ParameterError(f"every graph of {dimension + 1} edges is {connectivity}-connected", argument="dimension")
    return _boundary(upper, _not_connected(n, connectivity, edges, dimension), len(edges))


def _count_matchings(n: int, size: int, count: int) -> int:
    ordered: int = math.factorial(n) // (math.factorial(size) ** count * math.factorial(n - count * size))
    return ordered // math.factorial(count)


def _cliques(compatible: npt.NDArray[np.bool_], size: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """List the sets of `size` pairwise compatible vertices, and those with one vertex less."""
    larger = np.triu(compatible, 1)
    smaller = faces = np.arange(len(compatible), dtype=np.int64)[:, None]
    extensions = larger
    for _ in range(size - 1):
        parent, vertex = np.nonzero(extensions)
        smaller, faces = faces, np.column_stack([faces[parent], vertex])
        if faces.shape[1] < size:
            extensions = extensions[parent] & larger[vertex]
    return faces, smaller


def _not_connected(n: int, connectivity: int, edges: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    """List the graphs of `size` edges, in lexicographic order, that some `connectivity` - 1 vertices disconnect."""
    graphs = subsets(len(edges), size)
    masks = (1 << graphs).sum(axis=1)
    disconnected = np.zeros(len(graphs), bool)
    for crossing in _cuts(n, connectivity, edges):
        disconnected |= masks & crossing == 0
    return graphs[disconnected]


def _cuts(n: int, connectivity: int, edges: npt.NDArray[np.int64]) -> list[int]:
    """For each way to split the graph without some `connectivity` - 1 vertices, the edges that cross, as bits."""
    cuts = []
    for removed in subsets(n, connectivity - 1):
        rest = np.setdiff1d(np.arange(n), removed)
        for bits in range(2 ** (len(rest) - 1) - 1):  # the last vertex stays on side 1, the rest are not all there
            side = np.full(n, -1)
            side[rest] = [bits >> i & 1 for i in range(len(rest) - 1)] + [1]
            one, other = side[edges].T
            crossing = (one >= 0) & (other >= 0) & (one != other)
            cuts.append(int((1 << np.flatnonzero(crossing)).sum()))
    return cuts


def _boundary(
    faces: npt.NDArray[np.int64], smaller: npt.NDArray[np.int64], num_vertices: int
) -> scipy.sparse.csr_array:
    count, size = faces.shape
    known = _keys(smaller, num_vertices)
    # Without vertex j a face comes the later the earlier j is, so that this order has ascending columns.
    dropped = np.arange(size)[::-1]
    columns = np.stack(
        [np.searchsorted(known, _keys(np.delete(faces, j, axis=1), num_vertices)) for j in dropped], axis=1
    )
    signs = np.tile((-1.0) ** dropped, count)
    return from_rows((count, len(smaller)), np.arange(count + 1) * size, columns.ravel(), signs)


def _keys(faces: npt.NDArray[np.int64], num_vertices: int) -> npt.NDArray[np.int64]:
    """Give faces of one size numbers that ascend in lexicographic order."""
    if num_vertices < 63:
        bits = np.int64(1) << (num_vertices - 1 - faces)
        return np.asarray(-bits.sum(axis=1), np.int64)
    keys = np.zeros(len(faces), np.int64)  # large enough: so many vertices, and few faces, make for small faces
    for vertex in faces.T:
        keys = keys * num_vertices + vertex
    return keys
