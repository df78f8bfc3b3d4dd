from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from well_formed import digest, make

from warploom.corpus.constructions import construct
from warploom.errors import ParameterError

CHESSBOARD = st.tuples(st.integers(2, 5), st.integers(2, 5)).flatmap(
    lambda s: st.fixed_dictionaries({"m": st.just(s[0]), "n": st.just(s[1]), "dimension": st.integers(1, min(s) - 1)})
)
MATCHING = st.tuples(st.integers(4, 8), st.integers(1, 2)).flatmap(
    lambda s: st.fixed_dictionaries(
        {"n": st.just(s[0]), "size": st.just(s[1]), "dimension": st.integers(1, s[0] // s[1] - 1)}
    )
)


def removed_leaves_disconnected(n, edges, removed):
    rest = set(range(n)) - set(removed)
    reached = {min(rest)}
    while grown := {w for e in edges for v, w in (e, e[::-1]) if v in reached and w in rest} - reached:
        reached |= grown
    return reached != rest


def is_connected_without_any(n, edges, connectivity):
    return not any(
        removed_leaves_disconnected(n, edges, removed) for removed in itertools.combinations(range(n), connectivity - 1)
    )


def boundary(vertices, is_face, dimension):
    """By the definition."""
    larger, smaller = (
        [f for f in itertools.combinations(range(len(vertices)), size) if is_face([vertices[v] for v in f])]
        for size in (dimension + 1, dimension)
    )
    dense = np.zeros((len(larger), len(smaller)))
    for row, face in enumerate(larger):
        for j in range(dimension + 1):
            dense[row, smaller.index(face[:j] + face[j + 1 :])] = (-1) ** j
    return dense


@given(CHESSBOARD.filter(lambda p: p["m"] * p["n"] <= 16))
def test_chessboard_complexes_are_those_of_the_definition(parameters):
    squares = list(itertools.product(range(parameters["m"]), range(parameters["n"])))

    def peaceful(rooks):
        return all(a[0] != b[0] and a[1] != b[1] for a, b in itertools.combinations(rooks, 2))

    expected = boundary(squares, peaceful, parameters["dimension"])
    np.testing.assert_array_equal(make("chessboard_complex", **parameters).toarray(), expected)


@given(MATCHING.filter(lambda p: p["n"] <= 6))
def test_matching_complexes_are_those_of_the_definition(parameters):
    blocks = list(itertools.combinations(range(parameters["n"]), parameters["size"]))

    def disjoint(chosen):
        return len(set().union(*chosen)) == len(chosen) * parameters["size"]

    expected = boundary(blocks, disjoint, parameters["dimension"])
    np.testing.assert_array_equal(make("matching_complex", **parameters).toarray(), expected)


@pytest.mark.parametrize(
    ("n", "connectivity", "dimension"), [(4, 1, 1), (4, 2, 2), (4, 3, 4), (5, 1, 3), (5, 2, 4), (5, 3, 7)]
)
def test_complexes_of_graphs_are_those_of_the_definition(n, connectivity, dimension):
    def not_connected(graph):
        return not is_connected_without_any(n, graph, connectivity)

    expected = boundary(list(itertools.combinations(range(n), 2)), not_connected, dimension)
    matrix = make("not_connected_complex", n=n, connectivity=connectivity, dimension=dimension)
    np.testing.assert_array_equal(matrix.toarray(), expected)


@pytest.mark.parametrize(
    ("name", "parameters", "dimensions"),
    [
        ("chessboard_complex", {"m": 5, "n": 5}, (1, 2, 3, 4)),
        ("matching_complex", {"n": 9}, (1, 2, 3)),
        ("matching_complex", {"n": 10, "size": 3}, (1, 2)),
        ("not_connected_complex", {"n": 6, "connectivity": 2}, (4, 5, 6, 7, 8, 9, 10)),
        ("not_connected_complex", {"n": 7, "connectivity": 3}, (15, 16)),
    ],
)
def test_a_boundary_has_no_boundary(name, parameters, dimensions):
    matrices = [make(name, dimension=d, **parameters) for d in dimensions]
    for smaller, larger in itertools.pairwise(matrices):
        assert larger.shape[1] == smaller.shape[0]
        assert not (larger @ smaller).data.any()


def test_large_boards_have_the_sizes_that_counting_gives():
    assert make("chessboard_complex", m=8, n=9, dimension=3).shape == (70 * 126 * 24, 56 * 84 * 6)


@pytest.mark.parametrize(
    ("name", "parameters", "expected"),
    [
        ("chessboard_complex", {"m": 4, "n": 5, "dimension": 2}, "f61287f0f7b5f4cd"),
        ("matching_complex", {"n": 8, "dimension": 2}, "1de3f50e41e9480f"),
        ("matching_complex", {"n": 7, "dimension": 1, "size": 3}, "acddb16af082eae2"),
        ("not_connected_complex", {"n": 5, "connectivity": 2, "dimension": 3}, "6f0a47c9054a6924"),
    ],
)
def test_patterns_are_the_same_everywhere(name, parameters, expected):
    assert digest(construct(name, **parameters)) == expected


@pytest.mark.parametrize(
    ("name", "parameters", "argument"),
    [
        ("chessboard_complex", {"m": 1, "n": 4, "dimension": 1}, "m"),
        ("chessboard_complex", {"m": 4, "n": 21, "dimension": 1}, "n"),
        ("chessboard_complex", {"m": 4, "n": 3, "dimension": 3}, "dimension"),
        ("chessboard_complex", {"m": 12, "n": 12, "dimension": 6}, "dimension"),
        ("matching_complex", {"n": 3, "dimension": 1}, "n"),
        ("matching_complex", {"n": 9, "dimension": 4}, "dimension"),
        ("matching_complex", {"n": 20, "dimension": 6}, "dimension"),
        ("matching_complex", {"n": 9, "dimension": 1, "size": 5}, "size"),
        ("not_connected_complex", {"n": 8, "connectivity": 2, "dimension": 2}, "n"),
        ("not_connected_complex", {"n": 6, "connectivity": 6, "dimension": 2}, "connectivity"),
        ("not_connected_complex", {"n": 6, "connectivity": 2, "dimension": 15}, "dimension"),
        ("not_connected_complex", {"n": 6, "connectivity": 2, "dimension": 11}, "dimension"),
    ],
)
def test_bad_parameters_are_named(name, parameters, argument):
    with pytest.raises(ParameterError) as caught:
        construct(name, **parameters)
    assert caught.value.argument == argument
