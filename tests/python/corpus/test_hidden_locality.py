from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.spatial
from hypothesis import given
from hypothesis import strategies as st
from well_formed import degrees, digest, is_symmetric, make, pattern

from warploom.corpus.constructions import construct, find, hidden_locality
from warploom.errors import ParameterError

SEED = st.integers(0, 2**70)
PARAMETERS = {
    "communities": st.fixed_dictionaries(
        {
            **{"n": st.integers(8, 60), "count": st.integers(1, 4), "degree": st.integers(1, 7)},
            **{"outside": st.integers(0, 100), "exponent": st.integers(15, 60), "seed": SEED},
            "shuffle": st.integers(0, 3),
        }
    ),
    "delaunay_3d": st.fixed_dictionaries(
        {"n": st.integers(5, 40), "unknowns": st.integers(1, 3), "seed": SEED, "shuffle": st.integers(0, 3)}
    ),
    "nearest_points": st.fixed_dictionaries(
        {
            **{"n": st.integers(8, 60), "neighbours": st.integers(1, 7), "dimensions": st.integers(2, 3)},
            **{"seed": SEED, "shuffle": st.integers(0, 3)},
        }
    ),
    "tastes": st.fixed_dictionaries(
        {
            **{"rows": st.integers(2, 60), "cols": st.integers(7, 40), "degree": st.integers(1, 7)},
            **{"groups": st.integers(1, 2), "outside": st.integers(0, 100), "exponent": st.integers(15, 60)},
            "seed": SEED,
        }
    ),
    "web_copies": st.fixed_dictionaries(
        {
            **{"n": st.integers(8, 60), "degree": st.integers(1, 7), "host": st.integers(2, 8)},
            **{"copying": st.integers(0, 100), "exponent": st.integers(15, 60), "seed": SEED},
            "shuffle": st.integers(0, 3),
        }
    ),
}
SMALL = [
    ("communities", {"n": 300, "count": 10, "degree": 8}, "a80028544e12ad40"),
    ("delaunay_3d", {"n": 200, "unknowns": 2}, "35131171afab8738"),
    ("nearest_points", {"n": 200, "neighbours": 5, "dimensions": 3}, "68f5aee92989a265"),
    ("tastes", {"rows": 300, "cols": 100, "degree": 6, "groups": 5}, "2ba64da4143c5e28"),
    ("web_copies", {"n": 300, "degree": 6, "host": 20}, "e4138303c1419a2d"),
]


@pytest.mark.parametrize("name", hidden_locality.__all__)
def test_every_construction_is_a_well_formed_graph(name):
    assert set(PARAMETERS) == set(hidden_locality.__all__)

    @given(PARAMETERS[name])
    def check(parameters):
        matrix = make(name, **parameters)
        if "shuffle" in parameters:
            in_order = make(name, **{**parameters, "shuffle": 0})
            assert sorted(degrees(matrix)) == sorted(degrees(in_order))
        assert name != "communities" or is_symmetric(matrix)
        if name == "delaunay_3d":
            assert np.array_equal(pattern(matrix), pattern(matrix).T)
            assert matrix.diagonal().all()
        elif name != "tastes":
            assert not matrix.diagonal().any()

    check()


@pytest.mark.parametrize(("name", "parameters", "expected"), SMALL)
def test_patterns_are_the_same_everywhere(name, parameters, expected):
    assert digest(construct(name, **parameters)) == expected


def test_points_have_arcs_to_the_nearest():
    matrix = construct("nearest_points", n=300, neighbours=6, dimensions=2)
    assert (degrees(matrix) == 6).all()
    mutual = matrix.astype(bool).astype(int)
    assert (mutual.multiply(mutual.T)).sum() > 0.5 * mutual.sum()  # nearness is mostly mutual
    far = construct("nearest_points", n=300, neighbours=60, dimensions=2).astype(bool)
    near = construct("nearest_points", n=300, neighbours=59, dimensions=2).astype(bool)
    assert (near.multiply(far)).nnz == near.nnz  # one more neighbour is added to the others


def test_tetrahedra_fill_the_cube_and_couple_all_unknowns():
    one, three = (construct("delaunay_3d", n=2000, unknowns=u).astype(bool).astype(int) for u in (1, 3))
    assert 14 < one.nnz / 2000 < 17
    assert (three != sp.kron(one, np.ones((3, 3)))).nnz == 0


def test_users_of_a_group_know_its_items():
    groups = 20
    A = construct("tastes", rows=4000, cols=1000, degree=12, groups=groups, outside=25)
    user = np.repeat(np.arange(4000), degrees(A))
    inside = np.mean(user * groups // 4000 == A.indices * groups // 1000)
    assert 0.65 < inside < 0.8
    popular = np.sort(np.bincount(A.indices, minlength=1000))[::-1]
    assert popular[:200].sum() > 0.3 * A.nnz


def neighbour_distance(matrix):
    row = np.repeat(np.arange(matrix.shape[0]), degrees(matrix))
    return np.median(np.abs(row - matrix.indices))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("communities", {"n": 20_000, "count": 200, "degree": 16}),
        ("delaunay_3d", {"n": 20_000}),
        ("nearest_points", {"n": 20_000}),
        ("nearest_points", {"n": 20_000, "dimensions": 3}),
        ("web_copies", {"n": 20_000, "degree": 12}),
    ],
)
def test_the_natural_order_has_locality_and_a_random_one_has_not(name, parameters):
    natural = construct(name, **parameters)
    assert neighbour_distance(natural) < 2000
    assert neighbour_distance(construct(name, **parameters, shuffle=1)) > 4000


def test_few_vertices_have_most_of_the_edges_and_pages_of_a_host_share_links():
    lengths = np.sort(degrees(construct("communities", n=20_000, count=200, degree=16)))[::-1]
    assert lengths[:2000].sum() > 0.3 * lengths.sum()
    rows = construct("web_copies", n=5000, degree=12).astype(bool).astype(int)
    shared = (rows[:-1].multiply(rows[1:])).sum() / rows.sum()
    unrelated = construct("web_copies", n=5000, degree=12, shuffle=2).astype(bool).astype(int)
    assert shared > 0.05
    assert shared > 3 * (unrelated[:-1].multiply(unrelated[1:])).sum() / unrelated.sum()


@pytest.mark.parametrize(
    ("name", "parameters", "argument"),
    [
        ("communities", {"n": 3, "count": 1, "degree": 1}, "n"),
        ("communities", {"n": 10, "count": 6, "degree": 1}, "count"),
        ("communities", {"n": 10, "count": 1, "degree": 10}, "degree"),
        ("communities", {"n": 10**8, "count": 9, "degree": 100}, "degree"),
        ("delaunay_3d", {"n": 4}, "n"),
        ("delaunay_3d", {"n": 10, "unknowns": 11}, "unknowns"),
        ("nearest_points", {"n": 10, "neighbours": 10}, "neighbours"),
        ("tastes", {"rows": 10, "cols": 10, "degree": 11, "groups": 1}, "degree"),
        ("tastes", {"rows": 10, "cols": 10, "degree": 1, "groups": 11}, "groups"),
        ("nearest_points", {"n": 10, "neighbours": 3, "dimensions": 4}, "dimensions"),
        ("web_copies", {"n": 10, "degree": 2, "host": 1}, "host"),
        ("web_copies", {"n": 10, "degree": 2, "host": 3, "copying": 101}, "copying"),
    ],
)
def test_parameters_out_of_range_are_refused(name, parameters, argument):
    with pytest.raises(ParameterError) as caught:
        construct(name, **parameters)
    assert caught.value.argument == argument


def test_points_are_those_that_brute_force_finds(monkeypatch):
    seen = []

    class Tree(scipy.spatial.cKDTree):
        def query(self, points, k, workers):
            seen.append(points)
            distance = ((points[:, None] - points) ** 2).sum(axis=2)
            return None, np.argsort(distance, axis=1, kind="stable")[:, :k]

    tree = find("nearest_points").function(n=80, neighbours=5, seed=3)
    monkeypatch.setattr(hidden_locality.scipy.spatial, "cKDTree", Tree)
    brute = find("nearest_points").function(n=80, neighbours=5, seed=3)
    assert len(seen) == 1
    np.testing.assert_array_equal(tree.indices, brute.indices)
