"""Graphs of points in the plane and in space: meshes, roads and random geometric graphs."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import scipy.sparse
import scipy.spatial

from warploom.corpus.constructions import _random
from warploom.corpus.constructions._adjacency import undirected
from warploom.corpus.constructions._arguments import integer_in, size_at_most
from warploom.corpus.constructions._registry import construction

__all__ = [
    "delaunay",
    "delaunay_dual",
    "hexagonal_mesh",
    "random_geometric",
    "random_geometric_3d",
    "roads",
    "triangulated_sphere",
]

_SIDE_2D, _SIDE_3D = 2**26, 2**25
"""Points have integer coordinates below this, so that squares of distances are exact in float64."""


@construction(family="random geometric graph", kind="undirected random graph")
def random_geometric(n: int, radius: int = 55, seed: int = 1, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Points in the unit square, joined where they are close.

    Parameters
    ----------
    n : int
        Points, from 2 to 10**7.
    radius : int
        Below which points are joined, in hundredths of ``sqrt(log(n) / n)``, from 1 to 400; 55 as in the collection's
        ``DIMACS10/rgg_n_2_<log2 n>_s0``.
    seed : int
        Seed for the points.
    shuffle : int
        0 for the order by squares of that side, row by row of squares; else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency; mean degree about ``pi * (radius / 100)**2 * log(n)``.
    """
    integer_in("n", n, 2, 10**7)
    integer_in("radius", radius, 1, 400)
    distance = math.floor(radius / 100 * math.sqrt(math.log(n) / n) * _SIDE_2D)
    return _close_points(n, 2, _SIDE_2D, distance, seed, shuffle)


@construction(family="random geometric graph", kind="undirected random graph")
def random_geometric_3d(n: int, degree: int = 12, seed: int = 1, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Points in the unit cube, joined where they are close.

    Parameters
    ----------
    n : int
        Points, from 2 to 10**7.
    degree : int
        Mean degree away from the sides of the cube, from 1 to 200.
    seed : int
        Seed for the points.
    shuffle : int
        0 for the order by cubes as long as the distance, layer by layer; else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency, somewhat fewer than ``n * degree`` entries.
    """
    integer_in("n", n, 2, 10**7)
    integer_in("degree", degree, 1, 200)
    distance = math.floor((degree / n / (4 / 3 * math.pi)) ** (1 / 3) * _SIDE_3D)
    return _close_points(n, 3, _SIDE_3D, distance, seed, shuffle)


@construction(family="planar mesh", kind="undirected graph")
def delaunay(n: int, seed: int = 1, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Delaunay triangulation of random points in the unit square.

    Parameters
    ----------
    n : int
        Points, from 4 to 10**7.
    seed : int
        Seed for the points.
    shuffle : int
        0 for the order along a Z-order curve, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency, just under ``6 * n`` entries as in the collection's ``DIMACS10/delaunay_n<log2 n>``.
    """
    integer_in("n", n, 4, 10**7)
    corners = _triangulation(n, seed).simplices.astype(np.int64)
    return undirected(n, corners.ravel(), np.roll(corners, 1, axis=1).ravel(), shuffle=shuffle)


@construction(family="planar mesh", kind="undirected graph")
def delaunay_dual(n: int, seed: int = 1, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Triangles of a Delaunay triangulation of random points, joined where they share a side.

    Degree 3 but on the boundary, as in the collection's ``DIMACS10/hugetrace`` and ``hugebubbles``.

    Parameters
    ----------
    n : int
        Points, from 4 to 5 * 10**6. There are just under ``2 * n`` triangles.
    seed : int
        Seed for the points.
    shuffle : int
        0 for the order by the smallest corner, corners along a Z-order curve; else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency, just under ``6 * n`` entries.
    """
    integer_in("n", n, 4, 5 * 10**6)
    mesh = _triangulation(n, seed)
    corners = np.sort(mesh.simplices, axis=1).astype(np.int64)
    order = np.lexsort(corners.T[::-1])
    label = np.empty(len(order), np.int64)
    label[order] = np.arange(len(order))
    triangle, side = np.nonzero(mesh.neighbors >= 0)
    return undirected(
        len(label), label[triangle], label[mesh.neighbors[triangle, side]], shuffle=shuffle, both_ways=True
    )


@construction(family="planar mesh", kind="undirected graph")
def hexagonal_mesh(width: int, height: int, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Honeycomb, as a brick wall of vertices.

    Parameters
    ----------
    width, height : int
        Vertices of a row, and rows, from 1 to 10**6; 10**8 vertices at most.
    shuffle : int
        0 for the order row by row, else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency, about ``3 * width * height`` entries; degree 3 but on the boundary.
    """
    integer_in("width", width, 1, 10**6)
    integer_in("height", height, 1, 10**6)
    n = width * height
    size_at_most("vertices", n, 10**8, "height")
    y, x = np.divmod(np.arange(n), width)
    right = np.flatnonzero(x < width - 1)
    down = np.flatnonzero((y < height - 1) & ((x + y) % 2 == 0))
    return undirected(n, np.append(right, down), np.append(right + 1, down + width), shuffle=shuffle)


@construction(family="planar mesh", kind="undirected graph")
def triangulated_sphere(level: int, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Octahedron whose triangles are cut into four again and again.

    Parameters
    ----------
    level : int
        Number of times, from 0 to 11. The graph has ``4 * 4**level + 2`` vertices.
    shuffle : int
        0 for the order in which vertices come up, level by level; else the seed of a random order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency, ``24 * 4**level`` entries; ``DIMACS10/fe_sphere`` of the collection has the size of level 6.
    """
    integer_in("level", level, 0, 11)
    around = [1, 2, 3, 4]
    triangles = np.array([[pole, around[i], around[i - 1]] for pole in (0, 5) for i in range(4)])
    n = 6
    for _ in range(level):
        triangles, n = _cut_in_four(triangles, n)
    return undirected(n, triangles.ravel(), np.roll(triangles, 1, axis=1).ravel(), shuffle=shuffle)


@construction(family="road network", kind="undirected graph")
def roads(
    width: int, height: int, kept: int = 75, chain: int = 4, seed: int = 1, shuffle: int = 0
) -> scipy.sparse.csr_array:
    """Grid of junctions, some of its streets missing, the others bent: chains of vertices of degree 2.

    Parameters
    ----------
    width, height : int
        Junctions, from 2 to 10**5; 10**8 vertices at most.
    kept : int
        Percentage of streets that exist, from 1 to 100.
    chain : int
        Maximum number of vertices along a street, from 0 (junctions only); their number is uniform.
    seed : int
        Seed for the streets.
    shuffle : int
        0 for junctions row by row, each before the streets that go right and down from it; else the seed of a random
        order.

    Returns
    -------
    scipy.sparse.csr_array
        Adjacency. Of about ``width * height * (1 + kept / 100 * chain)`` rows; degree at most 4.
    """
    integer_in("width", width, 2, 10**5)
    integer_in("height", height, 2, 10**5)
    integer_in("kept", kept, 1, 100)
    integer_in("chain", chain, 0, 1000)
    junctions = width * height
    size_at_most("vertices", junctions * (1 + 2 * chain), 10**8, "chain")
    here = np.repeat(np.arange(junctions), 2)
    downward = np.tile([False, True], junctions)
    there = here + np.where(downward, width, 1)
    inside = np.where(downward, there < junctions, here % width < width - 1)
    exists = inside & (_random.integers(seed, 0, 100, 2 * junctions) < kept)
    bends = np.where(exists, _random.integers(seed, 0, chain + 1, 2 * junctions, stream=1), 0)
    before = np.cumsum(bends) - bends  # bends of earlier streets
    label = np.arange(junctions) + before[::2]  # of a junction
    # A street is a chain of bends + 1 edges: from its junction to the first bend, to the last, to the other junction.
    street = np.repeat(np.flatnonzero(exists), bends[exists] + 1)
    step = np.arange(len(street)) - np.searchsorted(street, street)
    bend = here[street] + before[street] + step  # the vertex that many bends after the first is bend + 1
    one = np.where(step == 0, label[here[street]], bend)
    other = np.where(step == bends[street], label[there[street] % junctions], bend + 1)
    return undirected(junctions + int(bends.sum()), one, other, shuffle=shuffle)


def _points(n: int, dimensions: int, side: int, seed: int) -> npt.NDArray[np.int64]:
    return np.stack([_random.integers(seed, 0, side, n, stream) for stream in range(dimensions)], axis=1)


def _close_points(n: int, dimensions: int, side: int, distance: int, seed: int, shuffle: int) -> scipy.sparse.csr_array:
    points = _points(n, dimensions, side, seed)
    cells = points // max(distance, 1)
    points = points[np.lexsort(cells.T)]
    pairs = scipy.spatial.cKDTree(points.astype(np.float64)).query_pairs(distance, output_type="ndarray")
    return undirected(n, *pairs.astype(np.int64).T, shuffle=shuffle)


def _triangulation(n: int, seed: int) -> scipy.spatial.Delaunay:
    """Triangulate random points, the points in Z-order."""
    points = _points(n, 2, _SIDE_2D, seed)
    interleaved = np.zeros(n, np.int64)
    for bit in range(_SIDE_2D.bit_length() - 1):
        interleaved |= ((points[:, 0] >> bit & 1) << 2 * bit) | ((points[:, 1] >> bit & 1) << 2 * bit + 1)
    return scipy.spatial.Delaunay(points[np.argsort(interleaved, kind="stable")].astype(np.float64))


def _cut_in_four(triangles: npt.NDArray[np.int64], n: int) -> tuple[npt.NDArray[np.int64], int]:
    """Cut triangles at the middles of their sides, which become vertices from n on; return the new number too."""
    sides = np.sort(np.stack([triangles, np.roll(triangles, -1, axis=1)], axis=2), axis=2)
    known, middle = np.unique(sides[..., 0] * n + sides[..., 1], return_inverse=True)
    ab, bc, ca = n + middle.reshape(triangles.shape).T
    a, b, c = triangles.T
    pieces = [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
    return np.concatenate([np.stack(piece, axis=1) for piece in pieces]), n + len(known)
