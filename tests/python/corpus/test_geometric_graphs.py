from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse.csgraph
from hypothesis import given
from hypothesis import strategies as st
from well_formed import degrees, digest, is_symmetric, make, pattern

from warploom.corpus.constructions import _random, construct, geometric_graphs
from warploom.errors import ParameterError


def parameters(**strategies):
    return st.fixed_dictionaries({**strategies, "shuffle": st.integers(0, 3)})


SEED = st.integers(0, 2**70)
PARAMETERS = {
    "delaunay": parameters(n=st.integers(4, 60), seed=SEED),
    "delaunay_dual": parameters(n=st.integers(4, 60), seed=SEED),
    "hexagonal_mesh": parameters(width=st.integers(1, 9), height=st.integers(1, 9)),
    "random_geometric": parameters(n=st.integers(2, 60), radius=st.integers(1, 400), seed=SEED),
    "random_geometric_3d": parameters(n=st.integers(2, 60), degree=st.integers(1, 200), seed=SEED),
    "roads": parameters(
        width=st.integers(2, 6),
        height=st.integers(2, 6),
        kept=st.integers(1, 100),
        chain=st.integers(0, 4),
        seed=SEED,
    ),
    "triangulated_sphere": parameters(level=st.integers(0, 2)),
}


@pytest.mark.parametrize("name", geometric_graphs.__all__)
def test_every_construction_is_a_well_formed_undirected_graph(name):
    @given(PARAMETERS[name])
    def check(parameters):
        matrix = make(name, **parameters)
        assert is_symmetric(matrix)
        in_order = make(name, **{**parameters, "shuffle": 0})
        assert sorted(degrees(matrix)) == sorted(degrees(in_order))

    check()


SMALL = [
    ("delaunay", {"n": 200}, "d1088b32d124fb03"),
    ("delaunay_dual", {"n": 100}, "75fbbb08ba76b41a"),
    ("hexagonal_mesh", {"width": 11, "height": 12}, "f984d677f333c1c3"),
    ("random_geometric", {"n": 200}, "731277ee279e258f"),
    ("random_geometric_3d", {"n": 200}, "ce760d320a0884db"),
    ("roads", {"width": 10, "height": 12}, "af850b1cb251b4c1"),
    ("triangulated_sphere", {"level": 2}, "0f4180ecc29486bc"),
]


@pytest.mark.parametrize(("name", "parameters", "expected"), SMALL)
def test_patterns_are_the_same_everywhere(name, parameters, expected):
    assert digest(construct(name, **parameters)) == expected


@pytest.mark.parametrize(
    ("name", "parameters"), [(name, parameters) for name, parameters, _ in SMALL if name[0] in "dr"]
)
def test_another_seed_makes_another_matrix(name, parameters):
    assert digest(construct(name, **parameters)) != digest(construct(name, **parameters, seed=77))


@pytest.mark.parametrize("dimensions", [2, 3])
def test_points_are_joined_where_they_are_close(dimensions):
    n = 300
    if dimensions == 2:
        matrix, bound = make("random_geometric", n=n, radius=90, seed=4), 0.9 * math.sqrt(math.log(n) / n)
        side = 2**26
    else:
        matrix, bound = make("random_geometric_3d", n=n, degree=9, seed=4), (9 / n * 3 / 4 / math.pi) ** (1 / 3)
        side = 2**25
    points = np.stack([_random.integers(4, 0, side, n, stream) for stream in range(dimensions)], axis=1) / side
    distances = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2))
    expected = ((distances <= bound) & ~np.eye(n, dtype=bool)).sum(axis=1)
    assert sorted(degrees(matrix).tolist()) == sorted(expected.tolist())


@pytest.mark.parametrize(("log", "published"), [(15, 320480), (16, 684254)])
def test_random_geometric_graphs_have_the_density_of_the_collections(log, published):
    assert make("random_geometric", n=2**log).nnz == pytest.approx(published, rel=0.02)


@pytest.mark.parametrize(("log", "published"), [(10, 6112), (12, 24528), (14, 98244)])
def test_delaunay_graphs_have_the_size_of_the_collections(log, published):
    assert make("delaunay", n=2**log).nnz == pytest.approx(published, rel=0.005)


def test_degrees_in_space_are_near_the_one_asked_for():
    assert 10 < degrees(make("random_geometric_3d", n=20_000, degree=12)).mean() < 12


@given(PARAMETERS["delaunay"])
def test_triangulations_and_their_duals_obey_eulers_formula(parameters):
    edges = make("delaunay", **parameters).nnz // 2
    dual = make("delaunay_dual", **parameters)
    triangles, sides = dual.shape[0], dual.nnz // 2
    assert parameters["n"] - edges + triangles == 1
    assert 3 * triangles == edges + sides  # sides have two triangles, other edges, on the boundary, one
    assert degrees(dual).max(initial=0) <= 3


def test_natural_orders_keep_neighbours_near():
    for name, size in (("random_geometric", 4096), ("delaunay", 4096), ("delaunay_dual", 2048)):
        distances = []
        for shuffle in (0, 1):
            matrix = make(name, n=size, shuffle=shuffle).tocoo()
            distances.append(np.median(abs(matrix.row - matrix.col)))
        assert 20 * distances[0] < distances[1]


def test_a_honeycomb_is_one_piece_of_hexagons():
    matrix = make("hexagonal_mesh", width=20, height=10)
    assert scipy.sparse.csgraph.connected_components(matrix)[0] == 1
    dense = pattern(matrix).astype(int)
    assert np.trace(np.linalg.matrix_power(dense, 3)) == 0
    squares = np.linalg.matrix_power(dense, 2)
    np.fill_diagonal(squares, 0)
    assert squares.max() == 1  # no cycle of four
    assert set(degrees(matrix).tolist()) <= {1, 2, 3}
    assert (degrees(matrix) == 3).mean() > 0.75


@pytest.mark.parametrize("level", [0, 1, 2, 3, 6])
def test_spheres_obey_eulers_formula(level):
    matrix = make("triangulated_sphere", level=level)
    assert matrix.shape[0] == 4 * 4**level + 2
    assert matrix.nnz == 24 * 4**level
    lengths = degrees(matrix).tolist()
    assert lengths.count(4) == 6
    assert lengths.count(6) == len(lengths) - 6


def test_roads_without_bends_or_gaps_are_a_grid():
    x, y = np.divmod(np.arange(30), 6)
    expected = abs(x[:, None] - x) + abs(y[:, None] - y) == 1
    np.testing.assert_array_equal(pattern(make("roads", width=6, height=5, kept=100, chain=0)), expected)


@given(PARAMETERS["roads"])
def test_bends_have_two_neighbours_and_keep_the_pieces(parameters):
    bent = make("roads", **parameters)
    straight = make("roads", **{**parameters, "chain": 0})
    bends = bent.shape[0] - straight.shape[0]
    assert bent.nnz == straight.nnz + 2 * bends
    pieces = [scipy.sparse.csgraph.connected_components(m)[0] for m in (bent, straight)]
    assert pieces[0] == pieces[1]
    lengths, expected = degrees(bent).tolist(), degrees(straight).tolist()
    assert sorted(lengths) == sorted([*expected, *[2] * bends])


def test_roads_are_mostly_chains():
    matrix = make("roads", width=50, height=60)
    assert (degrees(matrix) == 2).mean() > 0.7
    assert degrees(matrix).mean() == pytest.approx(2.2, abs=0.1)


@pytest.mark.parametrize(
    ("name", "parameters", "argument"),
    [
        ("random_geometric", {"n": 1}, "n"),
        ("random_geometric", {"n": 10, "radius": 0}, "radius"),
        ("random_geometric_3d", {"n": 10, "degree": 201}, "degree"),
        ("delaunay", {"n": 3}, "n"),
        ("delaunay_dual", {"n": 10**7}, "n"),
        ("hexagonal_mesh", {"width": 0, "height": 3}, "width"),
        ("hexagonal_mesh", {"width": 10**6, "height": 10**6}, "height"),
        ("triangulated_sphere", {"level": 12}, "level"),
        ("roads", {"width": 1, "height": 3}, "width"),
        ("roads", {"width": 3, "height": 3, "kept": 0}, "kept"),
        ("roads", {"width": 10**5, "height": 10**3, "chain": 5}, "chain"),
    ],
)
def test_bad_parameters_are_named(name, parameters, argument):
    with pytest.raises(ParameterError) as caught:
        construct(name, **parameters)
    assert caught.value.argument == argument
