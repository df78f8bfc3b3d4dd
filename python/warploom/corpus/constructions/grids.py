"""Operators on regular grids: finite differences, elasticity, reactions with diffusion, device simulation."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from warploom.corpus.constructions._arguments import at_least, one_of
from warploom.corpus.constructions._assemble import from_coordinates
from warploom.corpus.constructions._patterns import (
    IntArray,
    Offset,
    Pattern,
    box,
    expand,
    finish,
    grid_pattern,
    ranges,
    shuffled,
    star,
)
from warploom.corpus.constructions._registry import construction

__all__ = [
    "convection_diffusion",
    "crystal_growth",
    "crystal_mass",
    "elasticity2d",
    "elasticity3d",
    "grid2d",
    "grid3d",
    "l_shape",
    "obstacle2d",
    "olmstead",
    "reaction_diffusion",
    "semiconductor",
    "sphere_mesh",
    "star2d",
    "stokes",
]

_STENCILS_2D: dict[int, list[Offset]] = {
    4: star(2)[1:],
    5: star(2),
    7: [*star(2), (1, 1), (-1, -1)],
    9: box(2),
    13: box(2, 2, 2),
    25: box(2, 2),
}
_STENCILS_3D: dict[int, list[Offset]] = {
    6: star(3)[1:],
    7: star(3),
    13: star(3, 2),
    15: [*star(3), *(o for o in box(3) if sum(map(abs, o)) in (0, 3) and any(o))],
    19: box(3, 1, 2),
    25: star(3, 4),
    27: box(3),
    125: box(3, 2),
}


@construction(family="2-D grid", kind="2D/3D problem")
def grid2d(
    nx: int, ny: int, stencil: int = 5, periodic: int = 0, shuffle: int = 0, shuffle_rows: int = 0
) -> scipy.sparse.csr_array:
    """Difference operator on a grid of nx times ny points.

    Parameters
    ----------
    nx, ny : int
        Points along each axis; those along x have consecutive numbers.
    stencil : {4, 5, 7, 9, 13, 25}
        Points that a row couples: nearest neighbours without and with the point itself, those of a triangulation
        (one diagonal of each square), all eight around it, the biharmonic operator's, or all within two steps.
    periodic : {0, 1, 2}
        How many axes are closed to rings, y first.
    shuffle : int
        Seed of a random numbering of the points; 0 keeps the order.
    shuffle_rows : int
        Seed of a random order of the rows alone; 0 keeps the order.
    """
    at_least(1, nx=nx, ny=ny)
    one_of(tuple(_STENCILS_2D), stencil=stencil)
    one_of((0, 1, 2), periodic=periodic)
    pattern = _grid((ny, nx), _STENCILS_2D[stencil], periodic)
    return finish(pattern, shuffle=shuffle, shuffle_rows=shuffle_rows)


@construction(family="3-D grid", kind="2D/3D problem")
def grid3d(
    nx: int, ny: int, nz: int, stencil: int = 7, periodic: int = 0, shuffle: int = 0, shuffle_rows: int = 0
) -> scipy.sparse.csr_array:
    """Difference operator on a grid of nx times ny times nz points.

    Parameters
    ----------
    nx, ny, nz : int
        Points along each axis; those along x have consecutive numbers, then those along y.
    stencil : {6, 7, 13, 15, 19, 25, 27, 125}
        Points that a row couples: nearest neighbours without and with the point itself, two steps along each axis,
        nearest neighbours and corners, all but corners, four steps along each axis, the cube of 27, or that of 125.
    periodic : {0, 1, 2, 3}
        How many axes are closed to rings, z first.
    shuffle : int
        Seed of a random numbering of the points; 0 keeps the order.
    shuffle_rows : int
        Seed of a random order of the rows alone; 0 keeps the order.
    """
    at_least(1, nx=nx, ny=ny, nz=nz)
    one_of(tuple(_STENCILS_3D), stencil=stencil)
    one_of((0, 1, 2, 3), periodic=periodic)
    pattern = _grid((nz, ny, nx), _STENCILS_3D[stencil], periodic)
    return finish(pattern, shuffle=shuffle, shuffle_rows=shuffle_rows)


def _grid(shape: tuple[int, ...], offsets: list[Offset], periodic: int) -> Pattern:
    return grid_pattern(shape, offsets, periodic=[axis < periodic for axis in range(len(shape))])


@construction(family="2-D grid", kind="2D/3D problem")
def star2d(nx: int, ny: int, reach_x: int, reach_y: int) -> scipy.sparse.csr_array:
    """Anisotropic difference operator of high order: more points along one axis than along the other.

    Parameters
    ----------
    nx, ny : int
        Points along each axis; those along x have consecutive numbers.
    reach_x, reach_y : int
        Steps that the stencil goes to either side along each axis.
    """
    at_least(1, nx=nx, ny=ny)
    at_least(0, reach_x=reach_x, reach_y=reach_y)
    along_x = [(0, step) for step in range(-reach_x, reach_x + 1)]
    along_y = [(step, 0) for step in range(-reach_y, reach_y + 1) if step]
    return finish(grid_pattern((ny, nx), along_x + along_y))


@construction(family="2-D grid", kind="optimization problem")
def obstacle2d(nx: int, ny: int) -> scipy.sparse.csr_array:
    """Five-point Hessian of a membrane held at its edge: points of the edge are not coupled with each other.

    Parameters
    ----------
    nx, ny : int
        Points along each axis, the edge included.
    """
    at_least(1, nx=nx, ny=ny)
    grid = grid_pattern((ny, nx), star(2))
    edge = np.ones((ny, nx), bool)
    edge[1:-1, 1:-1] = False
    on_edge = edge.ravel()
    rows = np.repeat(np.arange(nx * ny, dtype=np.int32), np.diff(grid.indptr))
    keep = (rows == grid.indices) | ~(on_edge[rows] & on_edge[grid.indices])
    return from_coordinates(grid.shape, rows[keep], grid.indices[keep])


@construction(family="2-D grid", kind="2D/3D problem")
def l_shape(side: int) -> scipy.sparse.csr_array:
    """Five-point operator on an L-shaped region of three squares.

    Parameters
    ----------
    side : int
        Points along a square's side: 3 side**2 rows.
    """
    at_least(1, side=side)
    grid = grid_pattern((2 * side, 2 * side), star(2))
    y, x = np.divmod(np.arange(4 * side * side), 2 * side)
    inside = (y < side) | (x < side)
    number = np.cumsum(inside) - 1
    rows = np.repeat(np.arange(len(inside)), np.diff(grid.indptr))
    keep = inside[rows] & inside[grid.indices]
    return from_coordinates((3 * side * side,) * 2, number[rows[keep]], number[grid.indices[keep]])


@construction(family="convection and diffusion", kind="computational fluid dynamics problem")
def convection_diffusion(nx: int, ny: int, nz: int = 1, upwind: int = 2, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Transport by a flow with diffusion: upwind differences reach further against the flow.

    Parameters
    ----------
    nx, ny, nz : int
        Points along each axis; nz = 1 is two-dimensional.
    upwind : int
        Steps against the flow, at least 1; one step along it.
    shuffle : int
        Seed of a random numbering of the points; 0 keeps the order.
    """
    at_least(1, nx=nx, ny=ny, nz=nz, upwind=upwind)
    offsets = [o for o in star(3, upwind) if max(o) <= 1]
    return finish(grid_pattern((nz, ny, nx), offsets), shuffle=shuffle)


@construction(family="elasticity", kind="structural problem")
def elasticity2d(nx: int, ny: int, unknowns: int = 2, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Elasticity on bilinear squares: nine-point grid whose entries are dense blocks.

    Parameters
    ----------
    nx, ny : int
        Nodes along each axis.
    unknowns : int
        Number of unknowns of each node.
    shuffle : int
        Seed of a random numbering of the nodes, whose unknowns stay together; 0 keeps the order.
    """
    at_least(1, nx=nx, ny=ny, unknowns=unknowns)
    return _elasticity((ny, nx), unknowns, shuffle)


@construction(family="elasticity", kind="structural problem")
def elasticity3d(nx: int, ny: int, nz: int, unknowns: int = 3, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Elasticity on trilinear bricks: 27-point grid whose entries are dense blocks.

    Parameters
    ----------
    nx, ny, nz : int
        Nodes along each axis.
    unknowns : int
        Number of unknowns of each node.
    shuffle : int
        Seed of a random numbering of the nodes, whose unknowns stay together; 0 keeps the order.
    """
    at_least(1, nx=nx, ny=ny, nz=nz, unknowns=unknowns)
    return _elasticity((nz, ny, nx), unknowns, shuffle)


def _elasticity(shape: tuple[int, ...], unknowns: int, shuffle: int) -> scipy.sparse.csr_array:
    return finish(expand(shuffled(grid_pattern(shape, box(len(shape))), shuffle), unknowns))


@construction(family="elasticity", kind="materials problem")
def crystal_mass(nx: int, ny: int, nz: int) -> scipy.sparse.csr_array:
    """Mass matrix of an elastic solid of bricks: three unknowns a node, not coupled with each other.

    Parameters
    ----------
    nx, ny, nz : int
        Nodes along each axis.
    """
    at_least(1, nx=nx, ny=ny, nz=nz)
    return finish(_separate(grid_pattern((nz, ny, nx), box(3)), 3))


def _separate(pattern: Pattern, unknowns: int) -> Pattern:
    """Repeat a pattern for each unknown of a node; the unknowns of a node have consecutive numbers."""
    size = pattern.shape[0]
    lengths = np.repeat(np.diff(pattern.indptr), unknowns)
    starts = np.repeat(pattern.indptr[:-1], unknowns)
    unknown = np.repeat(np.tile(np.arange(unknowns, dtype=np.int32), size), lengths)
    columns = pattern.indices[ranges(starts, lengths)] * np.int32(unknowns) + unknown
    return Pattern((size * unknowns,) * 2, np.concatenate([[0], np.cumsum(lengths)]), columns)


@construction(family="reaction and diffusion", kind="computational fluid dynamics problem")
def reaction_diffusion(nx: int, ny: int, nz: int = 1, species: int = 2, interleaved: int = 1) -> scipy.sparse.csr_array:
    """Species that diffuse on a grid and react at each point, such as the Brusselator: the Jacobian.

    Parameters
    ----------
    nx, ny, nz : int
        Points along each axis; ny = nz = 1 is a tube, nz = 1 a plate.
    species : int
        Concentrations at each point. Each diffuses alone; at a point all depend on all.
    interleaved : {0, 1}
        Whether the concentrations of a point have consecutive numbers, or those of a species.
    """
    at_least(1, nx=nx, ny=ny, nz=nz, species=species)
    one_of((0, 1), interleaved=interleaved)
    size = nx * ny * nz
    diffusion = _separate(grid_pattern((nz, ny, nx), star(3)[1:]), species)
    first = np.repeat(np.arange(size, dtype=np.int32) * species, species)
    columns = np.concatenate([diffusion.indices, (first[:, None] + np.arange(species, dtype=np.int32)).ravel()])
    rows = np.arange(size * species, dtype=np.int32)
    all_rows = np.concatenate([np.repeat(rows, np.diff(diffusion.indptr)), np.repeat(rows, species)])
    if not interleaved:
        all_rows, columns = (index // species + index % species * size for index in (all_rows, columns))
    return from_coordinates(diffusion.shape, all_rows, columns)


@construction(family="reaction and diffusion", kind="computational fluid dynamics problem")
def olmstead(points: int) -> scipy.sparse.csr_array:
    """Olmstead's model of the flow of a fluid with memory: two unknowns a point, of which one has no neighbours.

    Parameters
    ----------
    points : int
        On a line: two rows each, of six and of two entries.
    """
    at_least(1, points=points)
    chain = grid_pattern((points,), star(1))
    flow = np.repeat(2 * np.arange(points), np.diff(chain.indptr))
    point = 2 * np.arange(points)
    rows = np.concatenate([flow, flow, point + 1, point + 1])
    columns = np.concatenate([2 * chain.indices, 2 * chain.indices + 1, point, point + 1])
    return from_coordinates((2 * points,) * 2, rows, columns)


@construction(family="convection and diffusion", kind="materials problem")
def crystal_growth(points: int) -> scipy.sparse.csr_array:
    """Growth of a crystal (Bai's CRYG): five-point grid whose first and last lines are tied together.

    Parameters
    ----------
    points : int
        Along each axis, at least 4. The line before the last is not coupled with the last, but the first line is; the
        last one is coupled with the first two, and its first point with no neighbour along it.
    """
    at_least(4, points=points)
    size = points * points
    grid = grid_pattern((points, points), star(2))
    rows = np.repeat(np.arange(size), np.diff(grid.indptr))
    last = size - points
    keep = (
        ((rows < last) & (grid.indices < last))
        | ((abs(grid.indices - rows) < 2) & (rows > last))
        | (rows == grid.indices)
    )
    line = np.arange(points)
    all_rows = np.concatenate([rows[keep], line, line + last, line + last])
    columns = np.concatenate([grid.indices[keep], line + last, line, line + points])
    return from_coordinates(grid.shape, all_rows, columns)


@construction(family="semiconductor device", kind="semiconductor device problem")
def semiconductor(nx: int, ny: int, nz: int = 1, unknowns: int = 3, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Drift and diffusion in a device: potential and carriers at each node, all coupled with all of the neighbours.

    Parameters
    ----------
    nx, ny, nz : int
        Nodes along each axis; nz = 1 is a cross-section.
    unknowns : int
        Number of unknowns of each node: potential, electrons and holes are three.
    shuffle : int
        Seed of a random numbering of the nodes; 0 keeps the order.
    """
    at_least(1, nx=nx, ny=ny, nz=nz, unknowns=unknowns)
    return finish(expand(shuffled(grid_pattern((nz, ny, nx), star(3)), shuffle), unknowns))


@construction(family="saddle point", kind="computational fluid dynamics problem")
def stokes(nx: int, ny: int) -> scipy.sparse.csr_array:
    """Stokes flow on a staggered grid: velocities on the sides of cells, pressures within, no pressure diagonal.

    Parameters
    ----------
    nx, ny : int
        Cells along each axis.

    Notes
    -----
    Rows: (nx + 1) ny velocities along x, nx (ny + 1) along y, then nx ny pressures.
    """
    at_least(1, nx=nx, ny=ny)
    size = np.array([(nx + 1) * ny, nx * (ny + 1), nx * ny])
    along_x = grid_pattern((ny, nx + 1), star(2))
    along_y = grid_pattern((ny + 1, nx), star(2))
    cell = np.arange(nx * ny)
    x, y = cell % nx, cell // nx
    west = y * (nx + 1) + x
    sides = np.stack([west, west + 1, size[0] + cell, size[0] + cell + nx])
    pressure = size[0] + size[1] + cell
    rows = np.concatenate(
        [
            np.repeat(np.arange(size[0]), np.diff(along_x.indptr)),
            np.repeat(np.arange(size[1]), np.diff(along_y.indptr)) + size[0],
            sides.ravel(),
            np.tile(pressure, 4),
        ]
    )
    columns = np.concatenate([along_x.indices, along_y.indices + size[0], np.tile(pressure, 4), sides.ravel()])
    return from_coordinates((int(size.sum()),) * 2, rows, columns)


@construction(family="surface mesh", kind="computational fluid dynamics problem")
def sphere_mesh(level: int, faces: int = 20, cells: int = 0) -> scipy.sparse.csr_array:
    """Triangles on a sphere: an octahedron or icosahedron, each triangle cut into four, again and again.

    Parameters
    ----------
    level : int
        How often the triangles are cut: there are faces * 4**level.
    faces : {8, 20}
        Number of faces of the solid.
    cells : {0, 1}
        Whether a row is a triangle, coupled with itself and the three around it, or a corner, with the five or six.
    """
    at_least(0, level=level)
    one_of((8, 20), faces=faces)
    one_of((0, 1), cells=cells)
    triangles, size = _solid(faces)
    for _ in range(level):
        triangles, size = _cut(triangles, size)
    if cells:
        return _adjacent(triangles)
    diagonal = np.arange(size)
    rows = np.concatenate([diagonal, triangles.ravel()])
    columns = np.concatenate([diagonal, np.roll(triangles, 1, axis=1).ravel()])
    return from_coordinates((size, size), rows, columns, symmetric=True)


def _solid(faces: int) -> tuple[IntArray, int]:
    """Return the corners of each triangle of an octahedron or icosahedron, and how many corners there are."""
    if faces == 8:
        ring = [(i, (i + 1) % 4) for i in range(4)]
        return np.array([(pole, a, b) for pole in (4, 5) for a, b in ring]), 6
    upper = [(i, (i + 1) % 5) for i in range(5)]
    caps = [(10, a, b) for a, b in upper] + [(11, a + 5, b + 5) for a, b in upper]
    belt = [(a, b, a + 5) for a, b in upper] + [(b, a + 5, b + 5) for a, b in upper]
    return np.array(caps + belt), 12


def _edges(triangles: IntArray) -> IntArray:
    """Return a number for each side of each triangle that follows from its two corners."""
    ends = np.stack([triangles, np.roll(triangles, -1, axis=1)]).astype(np.int64)
    return np.asarray(ends.min(axis=0) << 32 | ends.max(axis=0))


def _cut(triangles: IntArray, size: int) -> tuple[IntArray, int]:
    """Join the midpoints of the sides of each triangle; the four parts have consecutive numbers."""
    edges, midpoints = np.unique(_edges(triangles).ravel(), return_inverse=True)
    a, b, c = triangles.T
    ab, bc, ca = midpoints.reshape(-1, 3).T + size
    parts = np.array([(a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca)])
    return parts.transpose(2, 0, 1).reshape(-1, 3), size + len(edges)


def _adjacent(triangles: IntArray) -> scipy.sparse.csr_array:
    count = len(triangles)
    by_edge = np.argsort(_edges(triangles).ravel(), kind="stable").reshape(-1, 2) // 3  # each side is in two triangles
    rows = np.concatenate([np.arange(count), by_edge[:, 0]])
    columns = np.concatenate([np.arange(count), by_edge[:, 1]])
    return from_coordinates((count, count), rows, columns, symmetric=True)
