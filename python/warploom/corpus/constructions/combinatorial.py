"""Matrices of combinatorics: graphs, designs and systems of equations that a definition gives completely."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import scipy.sparse

from warploom.corpus.constructions._arguments import integer_in, size_at_most
from warploom.corpus.constructions._assemble import from_coordinates, from_rows, with_random_values
from warploom.corpus.constructions._registry import construction
from warploom.corpus.constructions._subsets import complements, positions, subsets

__all__ = ["bibd", "kneser_colouring", "mycielskian", "trefethen", "wheel_colouring"]

_SHORTEST_WHEEL = 3


@construction(family="mycielskian", kind="undirected graph")
def mycielskian(k: int) -> scipy.sparse.csr_array:
    """Triangle-free graph of chromatic number k, by Mycielski's construction from a single edge.

    Parameters
    ----------
    k : int
        From 2 (one edge) to 20. The graph has 3 * 2**(k - 2) - 1 vertices.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency; the collection's ``Mycielski/mycielskian<k>``, in its order.
    """
    adjacency = scipy.sparse.csr_array(np.array([[0, 1], [1, 0]], np.int8))
    for _ in range(integer_in("k", k, 2, 20) - 2):
        n = adjacency.shape[0]
        ones = scipy.sparse.csr_array(np.ones((1, n), np.int8))
        original = scipy.sparse.hstack([adjacency, adjacency, scipy.sparse.csr_array((n, 1), dtype=np.int8)], "csr")
        shadows = scipy.sparse.hstack([adjacency, scipy.sparse.csr_array((n, n), dtype=np.int8), ones.T], "csr")
        apex = scipy.sparse.hstack(
            [scipy.sparse.csr_array((1, n), dtype=np.int8), ones, scipy.sparse.csr_array((1, 1), dtype=np.int8)], "csr"
        )
        adjacency = scipy.sparse.vstack([original, shadows, apex], "csr")
    return with_random_values(scipy.sparse.csr_array(adjacency))


@construction(family="bibd", kind="combinatorial problem")
def bibd(n: int, k: int) -> scipy.sparse.csr_array:
    """Incidence of pairs and k-subsets, whose integer kernel holds the balanced incomplete block designs.

    Parameters
    ----------
    n : int
        Points, from 2 to 100.
    k : int
        Points of a block, from 2 to n; n choose k may be 10**6 at most.

    Returns
    -------
    scipy.sparse.csr_array
        Of n choose 2 rows and n choose k columns, k choose 2 entries a column; ``JGD_BIBD/bibd_<n>_<k>`` of the
        collection up to the order of its rows and columns.
    """
    integer_in("n", n, 2, 100)
    integer_in("k", k, 2, n)
    size_at_most("blocks", math.comb(n, k), 10**6, "k")
    blocks = subsets(n, k)
    first, second = np.triu_indices(k, 1)
    low, high = blocks[:, first], blocks[:, second]
    pairs = low * (2 * n - low - 1) // 2 + high - low - 1  # position of (low, high) in lexicographic order
    by_block = from_rows((len(blocks), n * (n - 1) // 2), np.arange(len(blocks) + 1) * len(first), pairs.ravel())
    return with_random_values(scipy.sparse.csr_array(by_block.T))


@construction(family="trefethen", kind="combinatorial problem")
def trefethen(n: int, first: int = 0) -> scipy.sparse.csr_array:
    """Primes on the diagonal, ones wherever row and column differ by a power of two.

    Problem 7 of Trefethen's hundred-dollar, hundred-digit challenge asks for an entry of its inverse.

    Parameters
    ----------
    n : int
        Rows, from 1 to 10**7.
    first : int
        The first prime is left out ``first`` times, with its row and column: 0 or 1 in the collection, at most 10**6.

    Returns
    -------
    scipy.sparse.csr_array
        Symmetric; ``JGD_Trefethen/Trefethen_<n>`` of the collection, and with ``first=1`` its ``Trefethen_<n + 1>b``.
    """
    integer_in("n", n, 1, 10**7)
    integer_in("first", first, 0, 10**6)
    distances = 2 ** np.arange(max(n - 1, 1).bit_length())
    distances = distances[distances < n]
    offsets = [0, *distances.tolist(), *(-distances).tolist()]
    diagonals = [_primes(first + n)[first:].astype(np.float64), *(np.ones(n - abs(o)) for o in offsets[1:])]
    matrix = scipy.sparse.csr_array(scipy.sparse.diags_array(diagonals, offsets=offsets, shape=(n, n)))
    matrix.sort_indices()
    return from_rows((n, n), matrix.indptr, matrix.indices, matrix.data)


@construction(family="colouring", kind="combinatorial problem")
def wheel_colouring(rim: int) -> scipy.sparse.csr_array:
    """Linear system of degree 1 in Hilbert's Nullstellensatz for the 3-colouring of a wheel.

    De Loera, Lee, Margulies and Onn (2009): over the field of two elements, a column for x_0**3 + 1 and for each
    product of a variable with x_i**2 + x_i x_j + x_j**2 over the edges ij; a row for each monomial in them.

    Parameters
    ----------
    rim : int
        Vertices around the hub, from 3 to 1000.

    Returns
    -------
    scipy.sparse.csr_array
        ``JGD_Margulies/wheel_<rim>_1`` of the collection up to the order of its rows and columns.
    """
    integer_in("rim", rim, _SHORTEST_WHEEL, 1000)
    around = np.arange(rim)
    edges = np.concatenate(
        [
            np.stack([np.zeros(rim, np.int64), around + 1], axis=1),
            np.sort(np.stack([around + 1, (around + 1) % rim + 1], axis=1), axis=1),
        ]
    )
    return _colouring_system(rim + 1, edges)


@construction(family="colouring", kind="combinatorial problem")
def kneser_colouring(n: int, k: int) -> scipy.sparse.csr_array:
    """Linear system of degree 1 in Hilbert's Nullstellensatz for the 3-colouring of a Kneser graph.

    See `wheel_colouring`.

    Parameters
    ----------
    n : int
        Points, from 2 to 12.
    k : int
        Points of a subset, at least 1; 2 * k is at most n.

    Returns
    -------
    scipy.sparse.csr_array
        ``JGD_Margulies/kneser_<n>_<k>_1`` of the collection up to the order of its rows and columns.
    """
    integer_in("n", n, 2, 12)
    integer_in("k", k, 1, n // 2)
    vertices = subsets(n, k)
    edges = disjoint_pairs(vertices, n)
    return _colouring_system(len(vertices), edges[edges[:, 0] < edges[:, 1]])


def disjoint_pairs(vertices: npt.NDArray[np.int64], n: int) -> npt.NDArray[np.int64]:
    """List the ordered pairs of disjoint sets among all the subsets of ``range(n)`` of one size."""
    k = vertices.shape[1]
    partners = positions(complements(vertices, n)[:, subsets(n - k, k)], vertices)
    return np.stack([np.repeat(np.arange(len(vertices)), partners.shape[1]), partners.ravel()], axis=1)


def _colouring_system(n: int, edges: npt.NDArray[np.int64]) -> scipy.sparse.csr_array:
    i, j = np.repeat(edges, n, axis=0).T
    factor = np.tile(np.arange(n), len(edges))
    monomials = np.sort(
        np.stack([np.stack(m, axis=1) for m in ((factor, i, i), (factor, i, j), (factor, j, j))], axis=1), axis=2
    )
    keys = (monomials[..., 0] * n + monomials[..., 1]) * n + monomials[..., 2]
    # The column of x_0**3 + 1 comes first; the key -1 is the monomial 1.
    keys = np.concatenate([[-1, 0], keys.ravel()])
    columns = np.concatenate([[0, 0], 1 + np.repeat(np.arange(len(factor)), 3)])
    known, rows = np.unique(keys, return_inverse=True)
    return from_coordinates((len(known), 1 + len(factor)), rows.ravel(), columns)


def _primes(count: int) -> npt.NDArray[np.int64]:
    """List the first primes, by the sieve of Eratosthenes."""
    bound = 15 if count < 6 else int(count * (np.log(count) + np.log(np.log(count)))) + 10  # Rosser (1941)
    is_prime = np.ones(bound + 1, bool)
    is_prime[:2] = False
    for p in range(2, int(bound**0.5) + 1):
        if is_prime[p]:
            is_prime[p * p :: p] = False
    return np.flatnonzero(is_prime)[:count]
