"""Markov chains, random walks and lattices of physics."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import scipy.sparse

from warploom.corpus.constructions._arguments import at_least, at_most, one_of
from warploom.corpus.constructions._assemble import from_coordinates, from_rows
from warploom.corpus.constructions._patterns import IntArray, finish, grid_pattern
from warploom.corpus.constructions._registry import construction

__all__ = ["epidemic_chain", "queueing_network", "spin_chain", "triangle_walk", "wilson_lattice"]


@construction(family="Markov chain", kind="2D/3D problem")
def epidemic_chain(population: int) -> scipy.sparse.csr_array:
    """Markov chain of an epidemic in a closed population: each person is susceptible, infected or immune.

    Parameters
    ----------
    population : int
        Persons: (population + 1) (population + 2) / 2 states, numbered by the infected, then by the susceptible ones.

    Notes
    -----
    A state stays, or one person is infected, recovers or loses immunity, where there is one who can.
    """
    at_least(1, population=population)
    infected, susceptible, state = _triangle(population)
    immune = population - infected - susceptible
    below = population + 2 - infected  # states between (infected - 1, s) and (infected, s)
    targets = [
        (state, np.ones(len(state), bool)),
        (state + below - 2, susceptible > 0),
        (state - below, infected > 0),
        (state + 1, immune > 0),
    ]
    return _transitions(targets)


@construction(family="Markov chain", kind="directed weighted graph")
def triangle_walk(side: int) -> scipy.sparse.csr_array:
    """Random walk on a triangular piece of a square grid.

    Parameters
    ----------
    side : int
        Steps along each side: (side + 1) (side + 2) / 2 points.
    """
    at_least(1, side=side)
    row, place, point = _triangle(side)
    targets = [
        (point + 1, row + place < side),
        (point - 1, place > 0),
        (point + side + 1 - row, row + place < side),
        (point - side - 2 + row, row > 0),
    ]
    return _transitions(targets)


def _triangle(side: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return row, place in it and number of the points of a triangle whose rows have side + 1, side, ..., 1 points."""
    lengths = np.arange(side + 1, 0, -1)
    row = np.repeat(np.arange(side + 1), lengths)
    point = np.arange(int(lengths.sum()))
    return row, point - (np.cumsum(lengths) - lengths)[row], point


def _transitions(targets: list[tuple[IntArray, npt.NDArray[np.bool_]]]) -> scipy.sparse.csr_array:
    size = len(targets[0][0])
    rows = np.concatenate([np.flatnonzero(possible) for _, possible in targets])
    columns = np.concatenate([target[possible] for target, possible in targets])
    return from_coordinates((size, size), rows, columns)


@construction(family="Markov chain", kind="statistical/mathematical problem")
def queueing_network(queues: int, capacity: int, shuffle: int = 0) -> scipy.sparse.csr_array:
    """Markov chain of queues in a row: a customer arrives, moves on to the next one, or leaves the last.

    Parameters
    ----------
    queues : int
        Queues, 1 to 12.
    capacity : int
        Customers that one holds: (capacity + 1)**queues states.
    shuffle : int
        Seed of a random numbering of the states; 0 keeps the order.
    """
    at_least(1, queues=queues, capacity=capacity)
    at_most(12, queues=queues)
    arrive = (1,) + (0,) * (queues - 1)
    leave = (0,) * (queues - 1) + (-1,)
    moves = [tuple(1 if q == i + 1 else -1 if q == i else 0 for q in range(queues)) for i in range(queues - 1)]
    return finish(grid_pattern((capacity + 1,) * queues, [(0,) * queues, arrive, leave, *moves]), shuffle=shuffle)


@construction(family="quantum lattice", kind="theoretical/quantum chemistry problem")
def spin_chain(sites: int, periodic: int = 1) -> scipy.sparse.csr_array:
    """Heisenberg's Hamiltonian of a chain of spins: neighbours that differ change places.

    Parameters
    ----------
    sites : int
        Spins, 2 to 26: 2**sites rows with sites / 2 + 1 entries on average.
    periodic : {0, 1}
        Whether the chain is a ring.
    """
    at_least(2, sites=sites)
    at_most(26, sites=sites)
    one_of((0, 1), periodic=periodic)
    state = np.arange(1 << sites, dtype=np.int32)
    bonds = [(site, (site + 1) % sites) for site in range(sites - (0 if periodic else 1))]
    rows, columns = [state], [state]
    for first, second in bonds:
        differ = state[((state >> first) ^ (state >> second)) & 1 == 1]
        rows.append(differ)
        columns.append(differ ^ np.int32(1 << first | 1 << second))
    return from_coordinates((len(state),) * 2, np.concatenate(rows), np.concatenate(columns))


@construction(family="quantum lattice", kind="theoretical/quantum chemistry problem")
def wilson_lattice(nx: int, ny: int, nz: int, nt: int) -> scipy.sparse.csr_array:
    """Hopping of quarks on a periodic lattice of space and time (Wilson's Dirac operator without its diagonal).

    Parameters
    ----------
    nx, ny, nz, nt : int
        Sites along each axis, at least 3: twelve rows a site, four spins of three colours, of 39 entries each.

    Notes
    -----
    A neighbour in space couples spin s with s and with 3 - s (along z: with s + 2 modulo 4); of the neighbours in time
    the next one is reached by the first two spins, the previous one by the others. Colours are all coupled.
    """
    at_least(3, nx=nx, ny=ny, nz=nz, nt=nt)
    shape = (nt, nz, ny, nx)
    site = np.arange(nx * ny * nz * nt, dtype=np.int32).reshape(shape)
    columns: list[list[IntArray]] = [[] for _ in range(4)]  # for each spin of a row: (site, spin) of its columns
    for axis, step in itertools.product(range(4), (-1, 1)):
        neighbour = 4 * np.roll(site, -step, axis=axis).ravel()
        for spin in range(4):
            if axis > 0:
                partner = (spin + 2) % 4 if axis == 1 else 3 - spin
                columns[spin] += [neighbour + np.int32(spin), neighbour + np.int32(partner)]
            elif (spin < 2) == (step > 0):
                columns[spin].append(neighbour + np.int32(spin))
    blocks = np.stack([np.stack(of_spin, axis=1) for of_spin in columns], axis=1).reshape(-1, len(columns[0]))
    blocks.sort(axis=1)
    rows = np.repeat(3 * blocks[:, :, None] + np.arange(3, dtype=np.int32), 3, axis=0).reshape(3 * len(blocks), -1)
    return from_rows((len(rows),) * 2, np.arange(len(rows) + 1) * rows.shape[1], rows.ravel())
