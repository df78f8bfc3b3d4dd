"""Regular graphs: interconnection networks of parallel computers, and graphs of subsets and words."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import scipy.sparse

from warploom.corpus.constructions import _random
from warploom.corpus.constructions._adjacency import undirected
from warploom.corpus.constructions._arguments import integer_in, size_at_most
from warploom.corpus.constructions._assemble import from_rows
from warploom.corpus.constructions._registry import construction
from warploom.corpus.constructions._subsets import complements, positions, subsets
from warploom.corpus.constructions.combinatorial import disjoint_pairs

__all__ = [
    "butterfly",
    "circulant",
    "complete_multipartite",
    "cube_connected_arrays",
    "cube_connected_cycles",
    "de_bruijn",
    "disjoint_cliques",
    "hamming",
    "hypercube",
    "johnson",
    "kneser",
    "shuffle_exchange",
    "torus",
    "tree",
]

_MOST_ENTRIES = 2**31 - 1
_MOST_OF_SUBSETS = 4 * 10**7


@construction(family="interconnection network", kind="undirected graph sequence")
def butterfly(dimension: int, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Butterfly network whose last level is its first.

    Parameters
    ----------
    dimension : int
        From 3 to 22. The graph has ``dimension * 2**dimension`` vertices, all of degree 4.
    shuffle : int
        0 for the order by words, and by level for each, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency; ``AG-Monien/bfly`` of the collection is of dimension 12, in its order.
    """
    integer_in("dimension", dimension, 3, 22)
    level, word = _levels_and_words(dimension)
    below = (level + 1) % dimension
    straight = word * dimension + below
    cross = (word ^ (1 << level)) * dimension + below
    vertex = np.arange(len(word))
    return undirected(len(word), np.tile(vertex, 2), np.concatenate([straight, cross]), shuffle=shuffle)


@construction(family="interconnection network", kind="undirected graph sequence")
def cube_connected_cycles(dimension: int, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Hypercube with a cycle in place of each corner.

    Parameters
    ----------
    dimension : int
        From 3 to 22. The graph has ``dimension * 2**dimension`` vertices, all of degree 3.
    shuffle : int
        0 for the order cycle by cycle, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency; ``AG-Monien/ccc`` of the collection is of dimension 12, up to the order of its vertices.
    """
    integer_in("dimension", dimension, 3, 22)
    level, word = _levels_and_words(dimension)
    around = word * dimension + (level + 1) % dimension
    return _cube_connected(dimension, np.arange(len(word)), around, shuffle)


@construction(family="interconnection network", kind="undirected graph sequence")
def cube_connected_arrays(dimension: int, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Hypercube with a path in place of each corner.

    Parameters
    ----------
    dimension : int
        From 2 to 22. The graph has ``dimension * 2**dimension`` vertices, of degree 2 and 3.
    shuffle : int
        0 for the order path by path, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency; ``AG-Monien/cca`` of the collection is of dimension 12, up to the order of its vertices.
    """
    integer_in("dimension", dimension, 2, 22)
    upper = np.flatnonzero(_levels_and_words(dimension)[0] < dimension - 1)
    return _cube_connected(dimension, upper, upper + 1, shuffle)


@construction(family="interconnection network", kind="undirected graph sequence")
def de_bruijn(dimension: int, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Words of bits, joined where one shifted by a bit is the other.

    Parameters
    ----------
    dimension : int
        Bits of a word, from 2 to 26. The graph has ``2**dimension`` vertices of degree 4 at most.
    shuffle : int
        0 for the order of the words, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency; ``AG-Monien/debr`` of the collection is of dimension 20.
    """
    n = 2 ** integer_in("dimension", dimension, 2, 26)
    word = np.arange(n)
    shifted = 2 * word % n
    return undirected(n, np.tile(word, 2), np.concatenate([shifted, shifted + 1]), shuffle=shuffle)


@construction(family="interconnection network", kind="undirected graph sequence")
def shuffle_exchange(dimension: int, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Words of bits, joined where they differ in the last bit or one rotated by a bit is the other.

    Parameters
    ----------
    dimension : int
        Bits of a word, from 2 to 26. The graph has ``2**dimension`` vertices of degree 3 at most.
    shuffle : int
        0 for the order of the words, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency; ``AG-Monien/se`` of the collection is of dimension 15, in its order.
    """
    n = 2 ** integer_in("dimension", dimension, 2, 26)
    word = np.arange(n)
    rotated = 2 * word % n + 2 * word // n
    return undirected(n, np.tile(word, 2), np.concatenate([word ^ 1, rotated]), shuffle=shuffle)


@construction(family="interconnection network", kind="undirected graph")
def hypercube(dimension: int, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Words of bits, joined where they differ in one.

    Parameters
    ----------
    dimension : int
        Bits of a word, from 1 to 24. The graph has ``2**dimension`` vertices of degree `dimension`.
    shuffle : int
        0 for the order of the words, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency.
    """
    n = 2 ** integer_in("dimension", dimension, 1, 24)
    word = np.arange(n)
    flipped = [word ^ (1 << bit) for bit in range(dimension)]
    return undirected(n, np.tile(word, dimension), np.concatenate(flipped), shuffle=shuffle, both_ways=True)


@construction(family="interconnection network", kind="undirected random graph")
def torus(width: int, height: int, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Grid whose opposite sides meet.

    Parameters
    ----------
    width, height : int
        Vertices of a row, and rows, from 3 to 10**6; 10**8 vertices at most, all of degree 4.
    shuffle : int
        0 for the order row by row, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency; with 20 x 100 the pattern of the collection's ``Gset/G32``, in its order.
    """
    integer_in("width", width, 3, 10**6)
    integer_in("height", height, 3, 10**6)
    n = width * height
    size_at_most("vertices", n, 10**8, "height")
    vertex = np.arange(n)
    right = vertex // width * width + (vertex % width + 1) % width
    below = (vertex + width) % n
    return undirected(n, np.tile(vertex, 2), np.concatenate([right, below]), shuffle=shuffle)


@construction(family="subset graph", kind="undirected graph")
def hamming(length: int, letters: int, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Words over an alphabet, joined where they differ in one letter.

    Parameters
    ----------
    length : int
        Letters of a word, from 1 to 24.
    letters : int
        Number of letters of the alphabet, from 2 to 10**4. The graph has ``letters**length`` vertices of degree
        ``length * (letters - 1)`` and 2**31 - 1 entries at most.
    shuffle : int
        0 for the order of the words, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency.
    """
    integer_in("length", length, 1, 24)
    integer_in("letters", letters, 2, 10**4)
    n = letters**length
    size_at_most("entries", n * length * (letters - 1), _MOST_ENTRIES, "length")
    word = np.arange(n)
    places = [letters**place for place in range(length)]
    changed = [
        word + ((word // place + by) % letters - word // place % letters) * place
        for place in places
        for by in range(1, letters)
    ]
    return undirected(n, np.tile(word, len(changed)), np.concatenate(changed), shuffle=shuffle, both_ways=True)


@construction(family="subset graph", kind="undirected graph")
def kneser(n: int, k: int, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Subsets of n points with k elements, joined where they are disjoint.

    With k = 2 this is the graph that the DIMACS challenge on cliques calls ``johnson<n>-2-4``.

    Parameters
    ----------
    n : int
        Points, from 2 to 60.
    k : int
        Points of a subset, at least 1, at most n // 2. The graph has n choose k vertices, of degree n - k choose k,
        and 4 * 10**7 entries at most.
    shuffle : int
        0 for the lexicographic order, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency.
    """
    integer_in("n", n, 2, 60)
    integer_in("k", k, 1, n // 2)
    size_at_most("entries", math.comb(n, k) * math.comb(n - k, k), _MOST_OF_SUBSETS, "k")
    vertices = subsets(n, k)
    return undirected(len(vertices), *disjoint_pairs(vertices, n).T, shuffle=shuffle, both_ways=True)


@construction(family="subset graph", kind="undirected graph")
def johnson(n: int, k: int, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Subsets of n points with k elements, joined where they differ in one element.

    Parameters
    ----------
    n : int
        Points, from 2 to 60.
    k : int
        Points of a subset, from 1 to n - 1. The graph has n choose k vertices, of degree k * (n - k), and
        4 * 10**7 entries at most.
    shuffle : int
        0 for the lexicographic order, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency.
    """
    integer_in("n", n, 2, 60)
    integer_in("k", k, 1, n - 1)
    size_at_most("entries", math.comb(n, k) * k * (n - k), _MOST_OF_SUBSETS, "k")
    vertices = subsets(n, k)
    added = complements(vertices, n)
    neighbours = [
        positions(np.concatenate([np.delete(vertices, out, axis=1), added[:, [into]]], axis=1), vertices)
        for out in range(k)
        for into in range(n - k)
    ]
    vertex = np.arange(len(vertices))
    return undirected(
        len(vertices), np.tile(vertex, len(neighbours)), np.concatenate(neighbours), shuffle=shuffle, both_ways=True
    )


@construction(family="circulant", kind="undirected graph")
def circulant(n: int, jumps: int, reach: int, seed: int = 0, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Vertices in a circle, joined at the same random distances everywhere.

    Parameters
    ----------
    n : int
        Vertices, from 3 to 10**8.
    jumps : int
        Different distances, from 1 to `reach`: half the degree, except for the distance n / 2.
    reach : int
        Longest distance, from 1 to n // 2.
    seed : int
        Seed for the distances.
    shuffle : int
        0 for the order in the circle, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency.
    """
    integer_in("n", n, 3, 10**8)
    integer_in("reach", reach, 1, n // 2)
    integer_in("jumps", jumps, 1, reach)
    size_at_most("entries", 2 * n * jumps, _MOST_ENTRIES, "jumps")
    distances = 1 + _random.permutation(seed, reach)[:jumps]
    vertex = np.arange(n)
    there = (vertex[:, None] + distances) % n
    return undirected(n, np.repeat(vertex, jumps), there.ravel(), shuffle=shuffle)


@construction(family="block graph", kind="undirected graph")
def complete_multipartite(parts: int, size: int, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Vertices in parts, joined where they are in different parts.

    Parameters
    ----------
    parts : int
        From 2 to 10**4.
    size : int
        Vertices of a part, from 1 to 10**4; 10**9 entries at most.
    shuffle : int
        0 for the order by parts, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency: ``parts * size`` rows of ``(parts - 1) * size`` entries.
    """
    integer_in("parts", parts, 2, 10**4)
    integer_in("size", size, 1, 10**4)
    n, degree = parts * size, (parts - 1) * size
    size_at_most("entries", n * degree, 10**9, "parts")
    start = np.repeat(np.arange(parts) * size, size)
    columns = np.arange(degree) + np.where(np.arange(degree) >= start[:, None], size, 0)
    if shuffle:
        return undirected(n, np.repeat(np.arange(n), degree), columns.ravel(), shuffle=shuffle, both_ways=True)
    return from_rows((n, n), np.arange(n + 1) * degree, columns.ravel())


@construction(family="block graph", kind="undirected graph")
def disjoint_cliques(cliques: int, size: int, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Vertices in groups, joined where they are in the same group.

    Parameters
    ----------
    cliques : int
        From 1 to 10**7.
    size : int
        Vertices of a group, from 2 to 10**4; 10**9 entries at most.
    shuffle : int
        0 for the order by groups, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency: ``cliques * size`` rows of ``size - 1`` entries.
    """
    integer_in("cliques", cliques, 1, 10**7)
    integer_in("size", size, 2, 10**4)
    n = cliques * size
    size_at_most("entries", n * (size - 1), 10**9, "size")
    others = np.arange(size - 1) + (np.arange(size - 1) >= np.arange(size)[:, None])
    columns = (np.arange(cliques)[:, None, None] * size + others).reshape(n, size - 1)
    return undirected(n, np.repeat(np.arange(n), size - 1), columns.ravel(), shuffle=shuffle, both_ways=True)


@construction(family="tree", kind="undirected graph")
def tree(n: int, arity: int, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Complete tree, level by level.

    Parameters
    ----------
    n : int
        Vertices, from 2 to 10**8.
    arity : int
        Children of a vertex, from 1 (a path) to n - 1 (a star).
    shuffle : int
        0 for the order by levels, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency, of 2 * n - 2 entries.
    """
    integer_in("n", n, 2, 10**8)
    integer_in("arity", arity, 1, n - 1)
    child = np.arange(1, n)
    return undirected(n, child, (child - 1) // arity, shuffle=shuffle)


def _levels_and_words(dimension: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    word, level = np.divmod(np.arange(dimension * 2**dimension), dimension)
    return level, word


def _cube_connected(
    dimension: int, one: npt.NDArray[np.int64], other: npt.NDArray[np.int64], shuffle: int
) -> scipy.sparse.csr_array:
    """Join the pairs given, and within each level the words that differ in the bit of that level."""
    level, word = _levels_and_words(dimension)
    across = (word ^ (1 << level)) * dimension + level
    return undirected(
        len(word), np.concatenate([one, np.arange(len(word))]), np.concatenate([other, across]), shuffle=shuffle
    )
