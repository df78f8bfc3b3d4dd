"""Finite elements: which unknowns meet in an element follows from its shape and order."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from warploom.corpus.constructions import _random
from warploom.corpus.constructions._arguments import at_least, at_most, one_of
from warploom.corpus.constructions._assemble import from_coordinates
from warploom.corpus.constructions._patterns import (
    IntArray,
    Pattern,
    box,
    expand,
    finish,
    from_elements,
    grid_pattern,
    shuffled,
)
from warploom.corpus.constructions._registry import construction

__all__ = [
    "beam",
    "bricks",
    "edge_elements",
    "perforated",
    "quadrilaterals",
    "shell",
    "tetrahedra",
    "triangles",
    "truss",
    "wathen",
]


@construction(family="finite elements, 2-D", kind="2D/3D problem")
def quadrilaterals(nx: int, ny: int, order: int = 2, unknowns: int = 1, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Square elements of polynomials of any order along each axis.

    Parameters
    ----------
    nx, ny : int
        Elements along each axis.
    order : int
        Order of the polynomials: (order nx + 1) (order ny + 1) nodes.
    unknowns : int
        Number of unknowns of each node.
    shuffle : int
        Seed of a random numbering of the nodes; 0 keeps the order.
    """
    at_least(1, nx=nx, ny=ny, order=order, unknowns=unknowns)
    nodes, size = _lattice_elements((ny, nx), order)
    return _assembled(nodes, size, unknowns, shuffle)


@construction(family="finite elements, 3-D", kind="2D/3D problem")
def bricks(nx: int, ny: int, nz: int, order: int = 2, unknowns: int = 1, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Brick elements of polynomials of any order along each axis.

    Parameters
    ----------
    nx, ny, nz : int
        Elements along each axis.
    order : int
        Order of the polynomials: (order nx + 1) (order ny + 1) (order nz + 1) nodes.
    unknowns : int
        Number of unknowns of each node.
    shuffle : int
        Seed of a random numbering of the nodes; 0 keeps the order.
    """
    at_least(1, nx=nx, ny=ny, nz=nz, order=order, unknowns=unknowns)
    nodes, size = _lattice_elements((nz, ny, nx), order)
    return _assembled(nodes, size, unknowns, shuffle)


@construction(family="finite elements, 2-D", kind="2D/3D problem")
def triangles(
    nx: int, ny: int, order: int = 1, unknowns: int = 1, seed: int = 0, shuffle: int = 0
) -> scipy.sparse.csr_array:
    """Triangles that halve the squares of a grid, along diagonals drawn at random.

    Parameters
    ----------
    nx, ny : int
        Squares along each axis.
    order : {1, 2}
        Nodes at the corners, or also at the middle of each side: (order nx + 1) (order ny + 1) nodes.
    unknowns : int
        Number of unknowns of each node.
    seed : int
        Seed for the diagonals; 0 draws all of them from lower left to upper right.
    shuffle : int
        Seed of a random numbering of the nodes; 0 keeps the order.
    """
    at_least(1, nx=nx, ny=ny, unknowns=unknowns)
    at_least(0, seed=seed)
    one_of((1, 2), order=order)
    squares, size = _lattice_elements((ny, nx), order)
    corner = np.arange((order + 1) ** 2).reshape(order + 1, order + 1)
    y, x = np.divmod(corner, order + 1)
    rising = [corner[x >= y], corner[x <= y]]
    falling = [corner[x + y <= order], corner[x + y >= order]]
    is_falling = _random.integers(seed, 0, 2, len(squares)).astype(bool) if seed else np.zeros(len(squares), bool)
    nodes = [squares[~is_falling][:, half] for half in rising] + [squares[is_falling][:, half] for half in falling]
    return _assembled(np.concatenate(nodes), size, unknowns, shuffle)


@construction(family="finite elements, 3-D", kind="2D/3D problem")
def tetrahedra(
    nx: int, ny: int, nz: int, order: int = 1, unknowns: int = 1, shuffle: int = 0
) -> scipy.sparse.csr_array:
    """Tetrahedra, six in each cube of a grid.

    Parameters
    ----------
    nx, ny, nz : int
        Cubes along each axis.
    order : {1, 2}
        Nodes at the corners, or also at the middle of each edge: (order nx + 1) (order ny + 1) (order nz + 1) nodes.
    unknowns : int
        Number of unknowns of each node.
    shuffle : int
        Seed of a random numbering of the nodes; 0 keeps the order.
    """
    at_least(1, nx=nx, ny=ny, nz=nz, unknowns=unknowns)
    one_of((1, 2), order=order)
    cubes, size = _lattice_elements((nz, ny, nx), order)
    place = np.stack(np.unravel_index(np.arange((order + 1) ** 3), (order + 1,) * 3))
    chains = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
    # A tetrahedron of Kuhn's partition holds the points whose coordinates descend in one order of the axes.
    parts = [np.flatnonzero((place[a] >= place[b]) & (place[b] >= place[c])) for a, b, c in chains]
    return _assembled(np.concatenate([cubes[:, part] for part in parts]), size, unknowns, shuffle)


@construction(family="finite elements, 2-D", kind="random 2D/3D problem")
def wathen(nx: int, ny: int) -> scipy.sparse.csr_array:
    """Mass matrix of eight-node squares (Wathen 1987).

    Parameters
    ----------
    nx, ny : int
        Elements along each axis: 3 nx ny + 2 nx + 2 ny + 1 rows.
    """
    at_least(1, nx=nx, ny=ny)
    squares, size = _lattice_elements((ny, nx), 2)
    return _compacted(np.delete(squares, 4, axis=1), size, 1, 0)  # all of the nine nodes but the middle


@construction(family="finite elements, 3-D", kind="structural problem")
def perforated(
    nx: int, ny: int, nz: int, percent: int = 30, unknowns: int = 3, seed: int = 1, shuffle: int = 0
) -> scipy.sparse.csr_array:
    """Porous solid, such as bone: bricks of a grid of which a random part is missing.

    Parameters
    ----------
    nx, ny, nz : int
        Bricks along each axis.
    percent : int
        Percentage of the bricks, 0 to 95, that are missing; nodes without any are left out.
    unknowns : int
        Number of unknowns of each node.
    seed : int
        Seed for the missing ones.
    shuffle : int
        Seed of a random numbering of the nodes; 0 keeps the order.
    """
    at_least(1, nx=nx, ny=ny, nz=nz, unknowns=unknowns)
    at_least(0, percent=percent)
    at_most(95, percent=percent)
    nodes, size = _lattice_elements((nz, ny, nx), 1)
    present = _random.integers(seed, 0, 100, len(nodes)) >= percent
    present[0] = True
    return _compacted(nodes[present], size, unknowns, shuffle)


@construction(family="electromagnetic edge elements", kind="electromagnetics problem")
def edge_elements(nx: int, ny: int, nz: int, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Curl-curl operator of Maxwell's equations: unknowns on the edges of bricks, those of a brick all coupled.

    Parameters
    ----------
    nx, ny, nz : int
        Bricks along each axis: about 3 nx ny nz rows of up to 33 entries.
    shuffle : int
        Seed of a random numbering of the edges; 0 keeps the order: all along x, then along y, then along z.
    """
    at_least(1, nx=nx, ny=ny, nz=nz)
    cells = np.array([nz, ny, nx])
    z, y, x = (axis.ravel()[:, None] for axis in np.indices(tuple(cells)))
    pairs = np.stack([np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])])
    first, edges = 0, []
    for direction in (2, 1, 0):
        shape = cells + 1
        shape[direction] -= 1
        shift = np.insert(pairs, direction, 0, axis=0)
        edges.append(first + ((z + shift[0]) * shape[1] + y + shift[1]) * shape[2] + x + shift[2])
        first += int(shape.prod())
    return _assembled(np.concatenate(edges, axis=1), first, 1, shuffle)


@construction(family="shells and frames", kind="structural problem")
def shell(around: int, along: int, unknowns: int = 6, closed: int = 1, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Cylindrical shell of four-node elements: displacements and rotations at each node.

    Parameters
    ----------
    around, along : int
        Nodes along each axis.
    unknowns : int
        Number of unknowns of each node: 5 or 6 are usual.
    closed : {0, 1}
        Whether the cylinder is whole.
    shuffle : int
        Seed of a random numbering of the nodes, whose unknowns stay together; 0 keeps the order.
    """
    at_least(1, around=around, along=along, unknowns=unknowns)
    one_of((0, 1), closed=closed)
    pattern = grid_pattern((along, around), box(2), periodic=(False, bool(closed)))
    return finish(expand(shuffled(pattern, shuffle), unknowns))


@construction(family="shells and frames", kind="structural problem")
def truss(nx: int, ny: int, nz: int, percent: int = 40, unknowns: int = 3, seed: int = 1) -> scipy.sparse.csr_array:
    """Space frame: joints of a grid with all bars along the axes and some of the diagonal ones.

    Parameters
    ----------
    nx, ny, nz : int
        Joints along each axis.
    percent : int
        Percentage of the diagonals in planes, 0 to 100, that have a bar.
    unknowns : int
        Number of unknowns of each joint: 3 where bars are hinged, 6 where they are rigid.
    seed : int
        Seed for the diagonals.
    """
    at_least(1, nx=nx, ny=ny, nz=nz, unknowns=unknowns)
    at_least(0, percent=percent)
    at_most(100, percent=percent)
    full = grid_pattern((nz, ny, nx), [o for o in box(3, 1, 2) if o >= (0, 0, 0)])
    rows = np.repeat(np.arange(full.shape[0], dtype=np.int32), np.diff(full.indptr))
    step = full.indices - rows
    drawn = _random.integers(seed, 0, 100, len(step)) < percent
    keep = np.isin(step, (0, 1, nx, nx * ny)) | drawn
    joints = from_coordinates(full.shape, rows[keep], full.indices[keep], symmetric=True)
    return finish(expand(Pattern(joints.shape, joints.indptr, joints.indices), unknowns))


@construction(family="shells and frames", kind="structural problem")
def beam(nodes: int, axial: int = 0, free: int = 0) -> scipy.sparse.csr_array:
    """Straight beam of cubic elements: deflection and rotation at each node, and the axial displacement if asked for.

    Parameters
    ----------
    nodes : int
        Free nodes; both ends are clamped, or the last is free.
    axial : {0, 1}
        Whether nodes also move along the beam, which does not couple with bending.
    free : {0, 1}
        Whether the last node is a free end. Elsewhere the two neighbours of a node cancel in the coupling of its own
        deflection and rotation.
    """
    at_least(1, nodes=nodes)
    one_of((0, 1), axial=axial, free=free)
    unknowns = 2 + axial
    chain = grid_pattern((nodes,), box(1))
    node = np.repeat(np.arange(nodes), np.diff(chain.indptr))
    along, across, rotation = unknowns * node, unknowns * node + axial, unknowns * node + axial + 1
    target = unknowns * chain.indices.astype(np.int64)
    other = chain.indices != node
    other[-1] |= bool(free)
    rows = [across, rotation, across[other], rotation[other]]
    columns = [target + axial, target + axial + 1, target[other] + axial + 1, target[other] + axial]
    if axial:
        rows.append(along)
        columns.append(target)
    return from_coordinates((unknowns * nodes,) * 2, np.concatenate(rows), np.concatenate(columns))


def _lattice_elements(cells: tuple[int, ...], order: int) -> tuple[IntArray, int]:
    """Return the (order + 1)**d nodes of each box of a lattice, ascending, and how many nodes there are."""
    shape = [order * length + 1 for length in cells]
    first = np.ravel_multi_index(tuple(order * axis.ravel() for axis in np.indices(cells)), tuple(shape))
    local = np.ravel_multi_index(tuple(a.ravel() for a in np.indices((order + 1,) * len(cells))), tuple(shape))
    return (first[:, None] + local).astype(np.int32), int(np.prod(shape))


def _compacted(nodes: IntArray, size: int, unknowns: int, shuffle: int) -> scipy.sparse.csr_array:
    """Assemble elements after leaving out nodes that no element has."""
    used = np.zeros(size, bool)
    used[nodes.ravel()] = True
    number = np.cumsum(used, dtype=np.int32) - 1
    return _assembled(number[nodes], int(used.sum()), unknowns, shuffle)


def _assembled(nodes: IntArray, size: int, unknowns: int, shuffle: int) -> scipy.sparse.csr_array:
    return finish(expand(shuffled(from_elements(nodes, size), shuffle), unknowns))
