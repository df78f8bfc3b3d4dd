"""Large graphs whose natural order has locality, which ``shuffle`` hides: what orders for locality are tried on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse
import scipy.spatial

from warploom.corpus.constructions import _random
from warploom.corpus.constructions._adjacency import directed, undirected
from warploom.corpus.constructions._arguments import integer_in, size_at_most
from warploom.corpus.constructions._assemble import from_coordinates
from warploom.corpus.constructions._patterns import Pattern, expand, finish, from_elements
from warploom.corpus.constructions._registry import construction
from warploom.corpus.constructions._sampling import copied, power_law_counts

__all__ = ["communities", "delaunay_3d", "nearest_points", "tastes", "web_copies"]

_MOST_ROWS, _MOST_DRAWS = 10**8, 2**30
_BITS = 21
"""Of a coordinate, so that three of them fit into an integer, and squares of distances are exact in float64."""


@construction(family="nearest points", kind="2D/3D problem")
def nearest_points(
    n: int, neighbours: int = 24, dimensions: int = 2, seed: int = 1, shuffle: int = 0
) -> scipy.sparse.csr_array:
    """Random points, each with an arc to its nearest ones.

    Parameters
    ----------
    n : int
        Points, from 2 to 10**8.
    neighbours : int
        Arcs of a point, from 1 to n - 1.
    dimensions : int
        2 or 3.
    seed : int
        Seed for the points.
    shuffle : int
        0 for the order along a Z-order curve, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency, ``n * neighbours`` entries, unsymmetric.
    """
    integer_in("n", n, 2, _MOST_ROWS)
    integer_in("neighbours", neighbours, 1, n - 1)
    integer_in("dimensions", dimensions, 2, 3)
    size_at_most("arcs", n * neighbours, _MOST_DRAWS, "neighbours")
    points = _ordered_points(n, dimensions, seed)
    _, nearest = scipy.spatial.cKDTree(points).query(points, k=neighbours + 1, workers=-1)
    # The point itself is among the nearest but for points at the same place.
    others = nearest != np.arange(n)[:, None]
    others[others.all(axis=1), -1] = False
    return directed(n, np.repeat(np.arange(n), neighbours), nearest[others], shuffle=shuffle)


@construction(family="community graph", kind="undirected graph with communities")
def communities(
    n: int, count: int, degree: int, outside: int = 30, exponent: int = 25, seed: int = 1, shuffle: int = 0
) -> scipy.sparse.csr_array:
    """Communities and degrees of very different sizes, as in the benchmark of Lancichinetti et al. (2008).

    Parameters
    ----------
    n : int
        Vertices, from 4 to 10**8.
    count : int
        About the number of communities, from 1 to ``n // 2``; their sizes follow a power law.
    degree : int
        Mean degree drawn, from 1 to n - 1; loops and repetitions are dropped.
    outside : int
        Percentage of the edges that end in any community, from 0 to 100.
    exponent : int
        Exponent of the distribution of degrees, in tenths, from 15 to 60; that of sizes is 1 to 2 less.
    seed : int
        Seed for the edges.
    shuffle : int
        0 for the order by communities, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency, at most about ``n * degree`` entries.
    """
    integer_in("n", n, 4, _MOST_ROWS)
    integer_in("count", count, 1, n // 2)
    integer_in("degree", degree, 1, n - 1)
    integer_in("outside", outside, 0, 100)
    integer_in("exponent", exponent, 15, 60)
    size_at_most("edges", n * degree, _MOST_DRAWS, "degree")
    sizes = 2 + power_law_counts(count, n / count, max(exponent - 10, 15) / 10, n // 4 + 1, seed)
    ends = np.append(np.minimum(np.cumsum(sizes), n), n)
    draws = power_law_counts(n, degree / 2, exponent / 10, n // 4 + 1, seed, stream=2)
    one = np.repeat(np.arange(n), draws)
    # Ends are drawn in proportion to draws + 1: from the community, which is a range of vertices, or from all.
    upto = np.append(0, np.cumsum(draws + 1))
    home = np.searchsorted(ends, one, side="right")
    first = np.append(0, ends[:-1])
    crosses = _random.integers(seed, 0, 100, len(one), stream=4) < outside
    low = np.where(crosses, 0, upto[first[home]])
    high = np.where(crosses, upto[-1], upto[ends[home]])
    drawn = low + ((high - low) * _random.uniform(seed, 0.0, 1.0, len(one), stream=5)).astype(np.int64)
    return undirected(n, one, np.searchsorted(upto, drawn, side="right") - 1, shuffle=shuffle)


@construction(family="web graph", kind="directed graph")
def web_copies(
    n: int, degree: int, host: int = 200, copying: int = 70, exponent: int = 22, seed: int = 1, shuffle: int = 0
) -> scipy.sparse.csr_array:
    """Pages host by host, each with links of an earlier page of its host (Kleinberg et al. 1999): rows are similar.

    Parameters
    ----------
    n : int
        Pages, from 4 to 10**8.
    degree : int
        Mean number of links drawn from a page, from 1 to n - 1; loops and repetitions are dropped.
    host : int
        Mean number of pages of a host, from 2 to n; numbers follow a power law.
    copying : int
        Percentage of links that are copied from the page's model, from 0 to 100. Of the others one in four
        goes to any page, mostly to the same few ones, and the rest to pages of the host.
    exponent : int
        Exponent of the distributions of links and of pages of a host, in tenths, from 15 to 60.
    seed : int
        Seed for the links.
    shuffle : int
        0 for the order by hosts, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency, at most about ``n * degree`` entries, unsymmetric.
    """
    integer_in("n", n, 4, _MOST_ROWS)
    integer_in("degree", degree, 1, n - 1)
    integer_in("host", host, 2, n)
    integer_in("copying", copying, 0, 100)
    integer_in("exponent", exponent, 15, 60)
    size_at_most("links", n * degree, _MOST_DRAWS, "degree")
    counts = power_law_counts(n, degree, exponent / 10, n // 4 + 1, seed)
    sizes = 1 + power_law_counts(2 * (n // host) + 1, host, exponent / 10, n // 4 + 1, seed, stream=2)
    ends = np.append(np.minimum(np.cumsum(sizes), n), n)
    first = np.append(0, ends[:-1])
    page = np.repeat(np.arange(n), counts)
    start = np.cumsum(counts) - counts
    draw = [_random.uniform(seed, 0.0, 1.0, len(page), stream) for stream in range(4, 7)]
    home = np.searchsorted(ends, page, side="right")
    size = ends[home] - first[home]
    leaves = _random.integers(seed, 0, 4, len(page), stream=8) == 0
    # Products of uniform draws are mostly small: few pages of few hosts have most of the links from outside.
    anywhere = (n * (draw[0] * draw[0] * draw[0] * draw[1])).astype(np.int64)
    target = np.where(leaves, anywhere, first[home] + (size * (draw[1] * draw[2])).astype(np.int64))
    offset = np.arange(n) - first[np.searchsorted(ends, np.arange(n), side="right")]
    model = (np.arange(n) - 1 - (offset * _random.uniform(seed, 0.0, 1.0, n, stream=7)).astype(np.int64))[page]
    place = np.arange(len(page)) - start[page]
    copies = _random.integers(seed, 0, 100, len(page), stream=9) < copying
    copies &= (model >= first[home]) & (place < counts[model])
    source = copied(np.where(copies, start[model] + place, np.arange(len(page))))
    return directed(n, page, target[source], shuffle=shuffle)


@construction(family="tetrahedral mesh", kind="2D/3D problem")
def delaunay_3d(n: int, unknowns: int = 1, seed: int = 1, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Linear finite elements on the Delaunay tetrahedra of random points in the unit cube.

    Parameters
    ----------
    n : int
        Points, from 5 to 10**7.
    unknowns : int
        Unknowns of each point, from 1 to 10.
    seed : int
        Seed for the points.
    shuffle : int
        0 for the order along a Z-order curve, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        About ``16.5 * n * unknowns**2`` entries, the diagonal among them.
    """
    integer_in("n", n, 5, 10**7)
    integer_in("unknowns", unknowns, 1, 10)
    size_at_most("entries", 17 * n * unknowns**2, 2**31, "unknowns")
    points = _ordered_points(n, 3, seed)
    corners = scipy.spatial.Delaunay(points).simplices.astype(np.int64)
    pattern = from_elements(corners, n)
    if (np.diff(pattern.indptr) == 0).any():  # points at the same place are in no tetrahedron
        there = np.arange(n)
        pattern = from_elements(np.concatenate([corners, np.stack([there] * 4, axis=1)]), n)
    return finish(expand(Pattern(*pattern), unknowns), seed=seed, shuffle=shuffle)


@construction(family="user-item tastes", kind="bipartite graph")
def tastes(
    rows: int, cols: int, degree: int, groups: int, outside: int = 20, exponent: int = 22, seed: int = 1
) -> scipy.sparse.csr_array:
    """Users in groups of the same taste, by the items that they know: mostly those of their group.

    Parameters
    ----------
    rows, cols : int
        Users and items, from 2 to 10**8, group by group.
    degree : int
        Mean number of items drawn for a user, from 1 to `cols`; repetitions are dropped.
    groups : int
        Groups of users and of items, from 1 to the lesser of their numbers.
    outside : int
        Percentage of the items that are drawn from any group, from 0 to 100.
    exponent : int
        Exponent of the distribution of users' lengths, in tenths, from 15 to 60. Few items of a group are liked most.
    seed : int
        Seed for the entries.

    Returns
    -------
    scipy.sparse.csr_array
        At most about ``rows * degree`` entries.
    """
    integer_in("rows", rows, 2, _MOST_ROWS)
    integer_in("cols", cols, 2, _MOST_ROWS)
    integer_in("degree", degree, 1, cols)
    integer_in("groups", groups, 1, min(rows, cols))
    integer_in("outside", outside, 0, 100)
    integer_in("exponent", exponent, 15, 60)
    size_at_most("entries", rows * degree, _MOST_DRAWS, "degree")
    lengths = power_law_counts(rows, degree, exponent / 10, cols // 4 + 1, seed)
    user = np.repeat(np.arange(rows), lengths)
    leaves = _random.integers(seed, 0, 100, len(user), stream=4) < outside
    anywhere = _random.integers(seed, 0, groups, len(user), stream=5)
    group = np.where(leaves, anywhere, user * groups // rows)
    first = group * cols // groups
    size = (group + 1) * cols // groups - first
    rank = _random.uniform(seed, 0.0, 1.0, len(user), stream=6) * _random.uniform(seed, 0.0, 1.0, len(user), stream=7)
    return from_coordinates((rows, cols), user, first + (size * rank).astype(np.int64), seed=seed)


def _ordered_points(n: int, dimensions: int, seed: int) -> npt.NDArray[np.float64]:
    """Draw random points, and sort them along a Z-order curve."""
    points = np.stack([_random.integers(seed, 0, 1 << _BITS, n, stream) for stream in range(dimensions)], axis=1)
    return points[np.argsort(_z_order(points), kind="stable")].astype(np.float64)


def _z_order(points: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Interleave the bits of the coordinates."""
    dimensions = points.shape[1]
    found = np.zeros(len(points), np.int64)
    for bit in range(_BITS):
        for axis in range(dimensions):
            found |= (points[:, axis] >> bit & 1) << (dimensions * bit + axis)
    return found
