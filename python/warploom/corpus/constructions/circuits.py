"""Networks of parts: circuits, power grids, chemical plants, economies, molecules."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse

from warploom.corpus.constructions import _random
from warploom.corpus.constructions._arguments import at_least, at_most
from warploom.corpus.constructions._assemble import from_coordinates
from warploom.corpus.constructions._patterns import IntArray, Pattern, box, expand, finish, grid_pattern, shuffled
from warploom.corpus.constructions._registry import construction

__all__ = ["circuit", "economy", "flowsheet", "ladder", "molecule", "power_network"]


@construction(family="circuit", kind="circuit simulation problem")
def circuit(
    n: int,
    per_node: int = 2,
    rails: int = 4,
    percent: int = 20,
    reach: int = 50,
    one_way_percent: int = 20,
    seed: int = 1,
    shuffle: int = 0,
) -> scipy.sparse.csr_array:
    """Circuit: most nodes have few neighbours, near them; a few nets, such as the supply, have very many.

    Parameters
    ----------
    n : int
        Nodes.
    per_node : int
        Parts that start at each node. Ends are at a distance of up to about `reach`, or, for one part in 16, anywhere.
    rails : int
        Nets with very many connections, each of half as many as the one before.
    percent : int
        Percentage of the nodes, 0 to 100, that are connected with the first of them.
    reach : int
        Nodes on either side that the near ends are drawn from.
    one_way_percent : int
        Percentage of the parts, 0 to 100, that couple one way only, as controlled sources do.
    seed : int
        Seed for the ends.
    shuffle : int
        Seed of a random numbering of the nodes; 0 keeps the order.
    """
    at_least(1, n=n, per_node=per_node, reach=reach)
    at_least(0, rails=rails, percent=percent, one_way_percent=one_way_percent)
    at_most(100, percent=percent, one_way_percent=one_way_percent)
    start = np.repeat(np.arange(n), per_node)
    near = np.clip(start + _random.integers(seed, -reach, reach + 1, len(start)), 0, n - 1)
    is_far = _random.integers(seed, 0, 16, len(start), stream=2) == 0
    end = np.where(is_far, _random.integers(seed, 0, n, len(start), stream=3), near)
    rail_ends = [np.full(n * percent // 100 >> rail, _place(n, rail, rails)) for rail in range(rails)]
    rail_end = np.concatenate([np.arange(0), *rail_ends])
    start = np.concatenate([start, _random.integers(seed, 0, n, len(rail_end), stream=4)])
    end = np.concatenate([end, rail_end])
    both = _random.integers(seed, 0, 100, len(start), stream=5) >= one_way_percent
    node = np.arange(n)
    rows, columns = np.concatenate([node, start, end[both]]), np.concatenate([node, end, start[both]])
    return _finished(from_coordinates((n, n), rows, columns), seed, shuffle)


def _place(n: int, part: int, parts: int) -> int:
    """Choose a few nodes, evenly distributed over all of them."""
    return (2 * part + 1) * n // (2 * parts)


@construction(family="circuit", kind="model reduction problem")
def ladder(sections: int, inductors: int = 1, ports: int = 0) -> scipy.sparse.csr_array:
    """Transmission line of resistors, capacitors and inductors: node voltages and, in between, branch currents.

    Parameters
    ----------
    sections : int
        Number of sections of the line.
    inductors : {0, 1}
        Whether sections have a current as an unknown, or nodes are coupled directly.
    ports : int
        Sources, each with an unknown current, at nodes evenly distributed over the line.
    """
    at_least(1, sections=sections)
    at_least(0, ports=ports)
    at_least(0, inductors=inductors)
    at_most(1, inductors=inductors)
    at_most(sections, ports=ports)
    size = (1 + inductors) * sections
    node = (1 + inductors) * np.array([_place(sections, port, ports) for port in range(ports)], int)
    rows = np.concatenate([np.arange(size), np.arange(size - 1), size + np.arange(ports)])
    columns = np.concatenate([np.arange(size), np.arange(1, size), node])
    return from_coordinates((size + ports,) * 2, rows, columns, symmetric=True)


@construction(family="power network", kind="power network problem")
def power_network(
    buses: int,
    chords_percent: int = 40,
    unknowns: int = 2,
    generators_percent: int = 10,
    seed: int = 1,
    shuffle: int = 0,
) -> scipy.sparse.csr_array:
    """Jacobian of a power flow: small blocks on a tree with some loops, and the states of generators.

    Parameters
    ----------
    buses : int
        Of the network. Each but the first hangs on an earlier one, of the last 64.
    chords_percent : int
        Further lines in percent of the buses, each between buses less than 1024 apart; the last is next to the first.
    unknowns : int
        Number of unknowns of each bus: angle and voltage are two.
    generators_percent : int
        Percentage of the buses, 0 to 100, with 4 further unknowns, coupled with each other and their bus.
    seed : int
        Seed for lines and generators.
    shuffle : int
        Seed of a random numbering of the buses; 0 keeps the order.
    """
    at_least(1, buses=buses, unknowns=unknowns)
    at_least(0, chords_percent=chords_percent, generators_percent=generators_percent)
    at_most(100, generators_percent=generators_percent)
    child = np.arange(1, buses)
    parent = child - 1 - _scaled(_random.bits(seed, buses - 1), np.minimum(child, 64))
    chords = buses * chords_percent // 100
    first = _random.integers(seed, 0, buses, chords, stream=2)
    second = (first + _random.integers(seed, 1, 1024, chords, stream=3)) % buses
    bus = np.arange(buses)
    rows, columns = np.concatenate([bus, child, first]), np.concatenate([bus, parent, second])
    has_generator = _random.integers(seed, 0, 100, buses, stream=4) < generators_percent
    lines = from_coordinates((buses, buses), rows, columns, symmetric=True)
    # A generator is a node of its own with 4 unknowns, after its bus.
    number = bus + np.cumsum(has_generator) - has_generator
    size = buses + int(has_generator.sum())
    of_bus = number[has_generator]
    coordinates = lines.tocoo()
    rows = np.concatenate([number[coordinates.row], of_bus + 1, of_bus + 1, of_bus])
    columns = np.concatenate([number[coordinates.col], of_bus, of_bus + 1, of_bus + 1])
    nodes = from_coordinates((size, size), rows, columns)
    widths = np.full(size, unknowns)
    widths[of_bus + 1] = 4
    order = _random.permutation(shuffle, size, stream=2) if shuffle else np.arange(size)
    at_least(0, shuffle=shuffle)
    pattern = expand(shuffled(Pattern(nodes.shape, nodes.indptr, nodes.indices), shuffle), widths[order])
    return finish(pattern, seed=seed)


def _scaled(bits: npt.NDArray[np.uint64], limits: IntArray) -> IntArray:
    """Turn random bits into integers below the limits."""
    return np.asarray((bits >> np.uint64(32)).astype(np.int64) * limits >> 32)


@construction(family="chemical plant", kind="chemical process simulation problem")
def flowsheet(
    units: int, smallest: int = 4, largest: int = 40, percent: int = 15, recycles: int = 20, seed: int = 1
) -> scipy.sparse.csr_array:
    """Plant of units in a row: sparse blocks of equations of various sizes, streams to the next unit, some recycled.

    Parameters
    ----------
    units : int
        Number of units of the plant.
    smallest, largest : int
        Bounds of the number of equations of a unit.
    percent : int
        Percentage of the places of a unit's block, 1 to 100, drawn for entries; repeated ones count once.
    recycles : int
        Streams to a unit anywhere before, in percent of the units.
    seed : int
        Seed for sizes and places.

    Notes
    -----
    A stream has four entries. Patterns are far from symmetric: equations have no natural diagonal.
    """
    at_least(1, units=units, smallest=smallest, percent=percent)
    at_least(smallest, largest=largest)
    at_least(0, recycles=recycles)
    at_most(100, percent=percent)
    sizes = _random.integers(seed, smallest, largest + 1, units)
    first = np.concatenate([[0], np.cumsum(sizes)])
    source = np.concatenate([np.arange(units - 1), _random.integers(seed, 0, units, units * recycles // 100, stream=2)])
    drawn = _scaled(_random.bits(seed, len(source), stream=3), source + 1)  # somewhere before
    target = np.where(np.arange(len(source)) < units - 1, source + 1, drawn)
    unit = np.concatenate([np.arange(units), np.repeat(np.arange(units), sizes * sizes * percent // 100)])
    row_unit = np.concatenate([unit, np.repeat(target, 4)])
    column_unit = np.concatenate([unit, np.repeat(source, 4)])
    rows = first[row_unit] + _scaled(_random.bits(seed, len(row_unit), stream=4), sizes[row_unit])
    columns = first[column_unit] + _scaled(_random.bits(seed, len(row_unit), stream=5), sizes[column_unit])
    every = np.arange(int(first[-1]))  # equation i has variable i + 1 of its unit, so that no row is empty
    own = np.repeat(np.arange(units), sizes)
    following = first[own] + (every - first[own] + 1) % sizes[own]
    shape = (int(first[-1]),) * 2
    return from_coordinates(shape, np.concatenate([rows, every]), np.concatenate([columns, following]), seed=seed)


@construction(family="economy", kind="economic problem")
def economy(
    regions: int, sectors: int, percent: int = 60, trade_percent: int = 2, seed: int = 1, shuffle: int = 0
) -> scipy.sparse.csr_array:
    """Leontief's inputs and outputs of several regions: nearly dense blocks, trade within sectors and at random.

    Parameters
    ----------
    regions : int
        Each has a block along the diagonal.
    sectors : int
        Rows of each block.
    percent : int
        Draws of a place in a region's block, in percent of the places, 0 to 400; repeated ones count once.
    trade_percent : int
        Draws of a place in any block, in percent of those of the whole matrix, 0 to 100.
    seed : int
        Seed for the places.
    shuffle : int
        Seed of a random numbering of rows and columns alike; 0 keeps the order.
    """
    at_least(1, regions=regions, sectors=sectors)
    at_least(0, percent=percent, trade_percent=trade_percent)
    at_most(400, percent=percent)
    at_most(100, trade_percent=trade_percent)
    n = regions * sectors
    inside = sectors * percent // 100
    lengths = inside + n * trade_percent // 100
    row = np.repeat(np.arange(n), lengths)
    within = np.tile(np.arange(lengths) < inside, n)
    local = row // sectors * sectors + _random.integers(seed, 0, sectors, len(row))
    columns = np.where(within, local, _random.integers(seed, 0, n, len(row), stream=2))
    diagonal = np.arange(n)
    exports = np.repeat(diagonal, 2)  # a sector to its like in the next two regions
    likes = (exports + np.tile([sectors, 2 * sectors], n)) % n
    rows = np.concatenate([diagonal, exports, row])
    return _finished(from_coordinates((n, n), rows, np.concatenate([diagonal, likes, columns])), seed, shuffle)


@construction(family="molecule", kind="theoretical/quantum chemistry problem")
def molecule(
    nx: int, ny: int, nz: int, smallest: int = 4, largest: int = 9, reach: int = 2, percent: int = 100, seed: int = 1
) -> scipy.sparse.csr_array:
    """Overlap of orbitals: dense blocks of various sizes between atoms that are near, fewer the further apart.

    Parameters
    ----------
    nx, ny, nz : int
        Atoms along each axis.
    smallest, largest : int
        Bounds of the orbitals of an atom.
    reach : int
        Largest distance of atoms that overlap.
    percent : int
        Percentage of the pairs at distance 1 that do; at distance d a part of 1 / d of them.
    seed : int
        Seed for sizes and pairs.
    """
    at_least(1, nx=nx, ny=ny, nz=nz, smallest=smallest, percent=percent)
    at_least(smallest, largest=largest)
    at_least(0, reach=reach)
    at_most(100, percent=percent)
    size = nx * ny * nz
    near = [o for o in box(3, reach) if sum(x * x for x in o) <= reach * reach and o > (0, 0, 0)]
    pairs = grid_pattern((nz, ny, nx), near)
    row = np.repeat(np.arange(size), np.diff(pairs.indptr))
    apart = [np.abs(a - b) for a, b in zip(_atoms(row, nx, ny), _atoms(pairs.indices, nx, ny), strict=True)]
    squared = sum(x * x for x in apart)
    drawn = _random.integers(seed, 0, 100, len(row))
    keep = drawn * drawn * squared < percent * percent
    atom = np.arange(size)
    rows, columns = np.concatenate([atom, row[keep]]), np.concatenate([atom, pairs.indices[keep]])
    atoms = from_coordinates((size, size), rows, columns, symmetric=True)
    orbitals = _random.integers(seed, smallest, largest + 1, size, stream=2)
    return finish(expand(Pattern(atoms.shape, atoms.indptr, atoms.indices), orbitals), seed=seed)


def _atoms(number: IntArray, nx: int, ny: int) -> tuple[IntArray, IntArray, IntArray]:
    return number % nx, number // nx % ny, number // (nx * ny)


def _finished(matrix: scipy.sparse.csr_array, seed: int, shuffle: int) -> scipy.sparse.csr_array:
    return finish(Pattern(matrix.shape, matrix.indptr, matrix.indices), seed=seed, shuffle=shuffle)
