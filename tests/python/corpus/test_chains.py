"""Markov chains and lattices against their states, one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from construction_calls import dense_pattern, is_symmetric

from warploom.corpus.constructions import construct
from warploom.errors import ParameterError


def _chain(states, moves):
    number = {state: position for position, state in enumerate(states)}
    dense = np.zeros((len(states),) * 2, bool)
    for state in states:
        for target in moves(state):
            if target in number:
                dense[number[state], number[target]] = True
    return dense


@pytest.mark.parametrize("population", [1, 2, 7])
def test_epidemic(population):
    states = [(i, s) for i in range(population + 1) for s in range(population + 1 - i)]

    def moves(state):
        infected, susceptible = state
        yield state
        yield infected + 1, susceptible - 1
        yield infected - 1, susceptible
        yield infected, susceptible + 1

    np.testing.assert_array_equal(
        dense_pattern(construct("epidemic_chain", population=population)), _chain(states, moves)
    )


@pytest.mark.parametrize("side", [1, 2, 6])
def test_triangle_walk(side):
    points = [(row, place) for row in range(side + 1) for place in range(side + 1 - row)]

    def moves(point):
        return [(point[0] + a, point[1] + b) for a, b in ((0, 1), (0, -1), (1, 0), (-1, 0))]

    matrix = construct("triangle_walk", side=side)
    np.testing.assert_array_equal(dense_pattern(matrix), _chain(points, moves))
    assert matrix.nnz == 2 * side * (side + 1)


@pytest.mark.parametrize(("queues", "capacity"), [(1, 4), (2, 3), (3, 2)])
def test_queues(queues, capacity):
    states = list(itertools.product(range(capacity + 1), repeat=queues))

    def moves(state):
        yield state
        yield (state[0] + 1, *state[1:])
        yield (*state[:-1], state[-1] - 1)
        for queue in range(queues - 1):
            yield (*state[:queue], state[queue] - 1, state[queue + 1] + 1, *state[queue + 2 :])

    matrix = construct("queueing_network", queues=queues, capacity=capacity)
    np.testing.assert_array_equal(dense_pattern(matrix), _chain(states, moves))


@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("sites", [3, 4, 6])
def test_spin_chain_against_products_of_spin_matrices(sites, periodic):
    plus, total = np.array([[0, 1], [0, 0]]), np.eye(1 << sites)
    for first in range(sites if periodic else sites - 1):
        factors = [np.eye(2)] * sites
        factors[first], factors[(first + 1) % sites] = plus, plus.T
        product = np.eye(1)
        for factor in factors:
            product = np.kron(product, factor)
        total = total + product + product.T
    matrix = construct("spin_chain", sites=sites, periodic=periodic)
    np.testing.assert_array_equal(dense_pattern(matrix), total != 0)


def test_wilson_lattice_against_gamma_matrices():
    """Sum over the directions of (1 - gamma) shift + (1 + gamma) shift^T, times dense colours."""
    lengths = (3, 4, 3, 5)  # x, y, z, t
    zero, pauli = np.zeros((2, 2)), [np.array(p) for p in ([[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]])]
    gammas = [np.block([[zero, -1j * p], [1j * p, zero]]) for p in pauli] + [np.diag([1, 1, -1, -1])]
    expected = np.zeros((4 * 3**2 * 4 * 5,) * 2, bool)
    for direction, gamma in enumerate(gammas):
        shifts = [np.eye(length) for length in reversed(lengths)]  # t is the slowest axis
        shifts[3 - direction] = np.roll(np.eye(lengths[direction]), 1, axis=1)  # row i has column i + 1
        hop = np.eye(1)
        for shift in shifts:
            hop = np.kron(hop, shift)
        expected |= np.kron(hop, np.eye(4) + gamma) != 0
        expected |= np.kron(hop.T, np.eye(4) - gamma) != 0
    matrix = construct("wilson_lattice", nx=3, ny=4, nz=3, nt=5)
    assert set(np.diff(matrix.indptr)) == {39}
    colours = dense_pattern(matrix).reshape(len(expected), 3, len(expected), 3)
    assert (colours.all(axis=(1, 3)) == colours.any(axis=(1, 3))).all()
    np.testing.assert_array_equal(colours[:, 0, :, 0], expected)


def test_symmetry():
    assert is_symmetric(construct("spin_chain", sites=5))
    assert not is_symmetric(construct("queueing_network", queues=2, capacity=3))


@pytest.mark.parametrize(
    ("name", "parameters", "argument"),
    [
        ("epidemic_chain", {"population": 0}, "population"),
        ("queueing_network", {"queues": 13, "capacity": 1}, "queues"),
        ("spin_chain", {"sites": 27}, "sites"),
        ("spin_chain", {"sites": 3, "periodic": 2}, "periodic"),
        ("wilson_lattice", {"nx": 4, "ny": 4, "nz": 2, "nt": 4}, "nz"),
    ],
)
def test_bad_parameters(name, parameters, argument):
    with pytest.raises(ParameterError, match=argument) as caught:
        construct(name, **parameters)
    assert caught.value.argument == argument
