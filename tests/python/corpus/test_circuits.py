"""Networks of parts: long rows, blocks and couplings where they are said to be."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from construction_calls import dense_pattern, is_symmetric

from warploom.corpus.constructions import construct
from warploom.errors import ParameterError


def test_circuit_has_a_few_long_rows():
    matrix = construct("circuit", n=4000, rails=3, percent=20)
    lengths = np.diff(matrix.indptr)
    assert matrix.diagonal().all()
    assert np.median(lengths) <= 6
    assert set(np.flatnonzero(lengths > 100)) == {666, 2000, 3333}  # the middles of three parts
    assert lengths[666] > lengths[2000] > lengths[3333]


def test_circuit_symmetry():
    assert is_symmetric(construct("circuit", n=300, one_way_percent=0))
    one_way = dense_pattern(construct("circuit", n=300, one_way_percent=100))
    mirrored = (one_way & one_way.T & ~np.eye(300, dtype=bool)).sum()
    assert mirrored < 0.1 * one_way.sum()


def test_circuit_without_far_ends_or_rails_is_a_band():
    matrix = dense_pattern(construct("circuit", n=1000, rails=0, reach=5))
    rows, columns = np.nonzero(matrix)
    assert (abs(rows - columns) <= 5).mean() > 0.9


@pytest.mark.parametrize("inductors", [0, 1])
def test_ladder(inductors):
    matrix = dense_pattern(construct("ladder", sections=9, inductors=inductors, ports=3))
    size = 9 * (1 + inductors)
    assert (matrix == matrix.T).all()
    distance = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    np.testing.assert_array_equal(matrix[:size, :size], distance <= 1)
    assert not matrix[size:, size:].any()
    ports = [int(np.flatnonzero(row)[0]) for row in matrix[size:]]
    assert ports == [node * (1 + inductors) for node in (1, 4, 7)]


def test_power_network_without_generators_or_loops_is_a_tree_of_blocks():
    buses, unknowns = 90, 2
    matrix = construct("power_network", buses=buses, chords_percent=0, generators_percent=0)
    assert matrix.nnz == (buses + 2 * (buses - 1)) * unknowns**2
    assert is_symmetric(matrix)
    blocks = dense_pattern(matrix).reshape(buses, unknowns, buses, unknowns).sum(axis=(1, 3))
    assert set(np.unique(blocks)) == {0, 4}
    for bus in range(1, buses):
        assert (blocks[bus, :bus] > 0).sum() == 1  # the one that it hangs on


def test_generators_have_four_unknowns_more():
    plain = construct("power_network", buses=30, generators_percent=0)
    every = construct("power_network", buses=30, generators_percent=100)
    assert every.shape[0] == plain.shape[0] + 4 * 30
    assert every.nnz == plain.nnz + 30 * (4 * 4 + 2 * 4 * 2)
    buses = np.arange(every.shape[0]) % 6 < 2
    np.testing.assert_array_equal(dense_pattern(every)[np.ix_(buses, buses)], dense_pattern(plain))
    shuffled = construct("power_network", buses=30, shuffle=4)
    ordered = construct("power_network", buses=30)
    assert sorted(np.diff(shuffled.indptr)) == sorted(np.diff(ordered.indptr))
    assert is_symmetric(shuffled)


def test_flowsheet_has_no_symmetry_and_no_empty_row():
    matrix = construct("flowsheet", units=40)
    pattern = dense_pattern(matrix)
    assert pattern.any(axis=1).all()
    assert pattern.any(axis=0).all()
    assert (pattern & pattern.T).sum() < 0.5 * matrix.nnz


def test_flowsheet_streams_go_to_the_next_unit_or_back():
    size, units = 5, 12
    matrix = dense_pattern(construct("flowsheet", units=units, smallest=size, largest=size, recycles=0))
    blocks = matrix.reshape(units, size, units, size).sum(axis=(1, 3))
    assert set(map(tuple, np.argwhere(blocks))) == {(u, u) for u in range(units)} | {
        (u + 1, u) for u in range(units - 1)
    }
    recycled = dense_pattern(construct("flowsheet", units=units, smallest=size, largest=size, recycles=100))
    blocks = recycled.reshape(units, size, units, size).sum(axis=(1, 3))
    assert np.triu(blocks, 1).any()


def test_economy_is_denser_within_regions():
    regions, sectors = 5, 30
    matrix = dense_pattern(construct("economy", regions=regions, sectors=sectors, percent=100, trade_percent=0))
    blocks = matrix.reshape(regions, sectors, regions, sectors).mean(axis=(1, 3))
    assert matrix.diagonal().all()
    for first, second in itertools.product(range(regions), repeat=2):
        if first == second:
            assert 0.55 < blocks[first, second] < 0.72  # 1 - 1 / e of the places
        else:
            assert blocks[first, second] == ((second - first) % regions in (1, 2)) / sectors


def test_molecule_couples_near_atoms():
    """Of one orbital each, with all pairs: the atoms within the reach."""
    matrix = construct("molecule", nx=4, ny=3, nz=3, smallest=1, largest=1, reach=2)
    assert is_symmetric(matrix)
    pattern = dense_pattern(matrix)
    atoms = [(x, y, z) for z in range(3) for y in range(3) for x in range(4)]
    for first, second in itertools.product(range(36), repeat=2):
        squared = sum((a - b) ** 2 for a, b in zip(atoms[first], atoms[second], strict=True))
        if squared <= 1:
            assert pattern[first, second]
        if squared > 4:
            assert not pattern[first, second]
    blocks = construct("molecule", nx=3, ny=3, nz=2, smallest=2, largest=4, percent=50)
    assert is_symmetric(blocks)
    assert blocks.shape[0] > 2 * 18


@pytest.mark.parametrize(
    ("name", "parameters", "argument"),
    [
        ("circuit", {"n": 9, "percent": 101}, "percent"),
        ("circuit", {"n": 9, "reach": 0}, "reach"),
        ("ladder", {"sections": 3, "ports": 4}, "ports"),
        ("power_network", {"buses": 3, "generators_percent": 101}, "generators_percent"),
        ("flowsheet", {"units": 3, "smallest": 4, "largest": 3}, "largest"),
        ("economy", {"regions": 3, "sectors": 4, "percent": 401}, "percent"),
        ("molecule", {"nx": 1, "ny": 1, "nz": 1, "smallest": 3, "largest": 2}, "largest"),
    ],
)
def test_bad_parameters(name, parameters, argument):
    with pytest.raises(ParameterError, match=argument) as caught:
        construct(name, **parameters)
    assert caught.value.argument == argument
