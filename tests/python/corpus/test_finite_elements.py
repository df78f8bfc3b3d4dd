"""Finite elements against sets of nodes, element by element."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from construction_calls import dense_pattern, is_symmetric
from hypothesis import given, settings
from hypothesis import strategies as st

from warploom.corpus.constructions import construct
from warploom.errors import ParameterError


def _coupled(elements, nodes):
    """Couple all nodes, given by their place, within each element; numbers follow the sorted places."""
    number = {place: position for position, place in enumerate(sorted(nodes))}
    dense = np.zeros((len(number),) * 2, bool)
    for element in elements:
        for first, second in itertools.product(element, repeat=2):
            dense[number[first], number[second]] = True
    return dense


def _boxes(counts, order):
    """Return the nodes of each box of a grid, as places from the slowest axis to x."""
    for corner in itertools.product(*map(range, counts)):
        yield list(itertools.product(*(range(order * c, order * c + order + 1) for c in corner)))


def _compare(matrix, elements):
    elements = [list(element) for element in elements]
    nodes = {node for element in elements for node in element}
    np.testing.assert_array_equal(dense_pattern(matrix), _coupled(elements, nodes))


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4))
def test_wathen_against_loops(nx, ny):
    eight = [[node for node in box if node[0] % 2 == 0 or node[1] % 2 == 0] for box in _boxes((ny, nx), 2)]
    matrix = construct("wathen", nx=nx, ny=ny)
    assert matrix.shape[0] == 3 * nx * ny + 2 * nx + 2 * ny + 1
    _compare(matrix, eight)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_quadrilaterals_and_bricks(order):
    _compare(construct("quadrilaterals", nx=3, ny=2, order=order), _boxes((2, 3), order))
    _compare(construct("bricks", nx=2, ny=3, nz=1, order=order), _boxes((1, 3, 2), order))


def test_triangles_halve_squares():
    halves = []
    for box in _boxes((3, 4), 2):
        y0, x0 = box[0]
        halves.append([(y, x) for y, x in box if x - x0 >= y - y0])
        halves.append([(y, x) for y, x in box if x - x0 <= y - y0])
    _compare(construct("triangles", nx=4, ny=3, order=2), halves)
    linear = construct("triangles", nx=4, ny=3)
    grid = construct("grid2d", nx=5, ny=4, stencil=7)
    np.testing.assert_array_equal(dense_pattern(linear), dense_pattern(grid))


@pytest.mark.parametrize("order", [1, 2])
def test_random_diagonals_keep_the_number_of_couplings(order):
    plain = construct("triangles", nx=9, ny=7, order=order)
    drawn = construct("triangles", nx=9, ny=7, order=order, seed=5)
    assert plain.shape == drawn.shape
    assert plain.nnz == drawn.nnz
    assert is_symmetric(drawn)
    assert (dense_pattern(plain) != dense_pattern(drawn)).any()


@pytest.mark.parametrize("order", [1, 2])
def test_six_tetrahedra_in_a_cube(order):
    tetrahedra = []
    for box in _boxes((2, 1, 2), order):
        for axes in itertools.permutations(range(3)):
            local = [np.subtract(node, box[0])[list(axes)] for node in box]
            tetrahedra.append([n for n, place in zip(box, local, strict=True) if (np.diff(place) <= 0).all()])
    assert {len(t) for t in tetrahedra} == {4 if order == 1 else 10}
    _compare(construct("tetrahedra", nx=2, ny=1, nz=2, order=order), tetrahedra)


def test_perforated_without_holes_is_bricks():
    full = construct("perforated", nx=3, ny=2, nz=2, percent=0, unknowns=2)
    np.testing.assert_array_equal(
        dense_pattern(full), dense_pattern(construct("bricks", nx=3, ny=2, nz=2, order=1, unknowns=2))
    )
    porous = construct("perforated", nx=6, ny=6, nz=6, percent=80, unknowns=1)
    assert porous.shape[0] < 7**3
    assert np.diff(porous.indptr).min() >= 8  # every node is in a brick
    assert is_symmetric(porous)


def test_edge_elements_couple_the_edges_of_a_brick():
    counts = (2, 3, 2)
    order, elements = {}, []
    for direction in (2, 1, 0):  # along x first
        lengths = [c + (axis != direction) for axis, c in enumerate(counts)]
        for place in itertools.product(*map(range, lengths)):
            order[direction, place] = len(order)
    for cell in itertools.product(*map(range, counts)):
        edges = []
        for direction in range(3):
            for shift in itertools.product((0, 1), repeat=3):
                if shift[direction] == 0:
                    edges.append(order[direction, tuple(np.add(cell, shift))])
        assert len(edges) == 12
        elements.append(edges)
    matrix = construct("edge_elements", nx=counts[2], ny=counts[1], nz=counts[0])
    _compare(matrix, elements)
    assert np.diff(construct("edge_elements", nx=3, ny=3, nz=3).indptr).max() == 33


def test_shell_closes_around():
    open_shell = dense_pattern(construct("shell", around=6, along=4, unknowns=2, closed=0))
    np.testing.assert_array_equal(open_shell, dense_pattern(construct("elasticity2d", nx=6, ny=4, unknowns=2)))
    closed = construct("shell", around=6, along=4, unknowns=2)
    nodes = dense_pattern(closed)[::2, ::2]
    for first, second in itertools.product(range(24), repeat=2):
        (y, x), (y2, x2) = divmod(first, 6), divmod(second, 6)
        assert nodes[first, second] == (abs(y - y2) <= 1 and (x - x2) % 6 in (0, 1, 5))


@pytest.mark.parametrize(("percent", "stencil"), [(0, 7), (100, 19)])
def test_truss_between_its_extremes(percent, stencil):
    matrix = construct("truss", nx=3, ny=4, nz=3, percent=percent, unknowns=1)
    np.testing.assert_array_equal(
        dense_pattern(matrix), dense_pattern(construct("grid3d", nx=3, ny=4, nz=3, stencil=stencil))
    )
    some = construct("truss", nx=3, ny=4, nz=3, percent=50)
    assert is_symmetric(some)


def test_beam_has_the_couplings_of_the_assembled_stiffness():
    """The stiffness of uniform cubic elements, 1 long, assembled in integers: zeros are what cancels."""
    element = np.array([[12, 6, -12, 6], [6, 4, -6, 2], [-12, -6, 12, -6], [6, 2, -6, 4]])
    nodes = 5
    for free in (0, 1):
        stiffness = np.zeros((2 * nodes + 4,) * 2, int)  # with a clamped node on either side
        for first in range(nodes + 1 - free):
            stiffness[2 * first : 2 * first + 4, 2 * first : 2 * first + 4] += element
        inner = stiffness[2:-2, 2:-2] != 0
        np.testing.assert_array_equal(dense_pattern(construct("beam", nodes=nodes, free=free)), inner)


@pytest.mark.parametrize(
    ("name", "parameters", "argument"),
    [
        ("triangles", {"nx": 2, "ny": 2, "order": 3}, "order"),
        ("tetrahedra", {"nx": 2, "ny": 2, "nz": 0}, "nz"),
        ("perforated", {"nx": 2, "ny": 2, "nz": 2, "percent": 96}, "percent"),
        ("truss", {"nx": 2, "ny": 2, "nz": 2, "percent": 101}, "percent"),
        ("beam", {"nodes": 3, "free": 2}, "free"),
        ("shell", {"around": 3, "along": 3, "closed": 2}, "closed"),
    ],
)
def test_bad_parameters(name, parameters, argument):
    with pytest.raises(ParameterError, match=argument) as caught:
        construct(name, **parameters)
    assert caught.value.argument == argument
