from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from well_formed import degrees, digest, is_symmetric, make, pattern

from warploom.corpus.constructions import construct, networks
from warploom.errors import ParameterError


def parameters(**strategies):
    return st.fixed_dictionaries({**strategies, "shuffle": st.integers(0, 3)})


PARAMETERS = {
    "butterfly": parameters(dimension=st.integers(3, 6)),
    "circulant": st.integers(3, 60).flatmap(
        lambda n: st.integers(1, n // 2).flatmap(
            lambda reach: parameters(n=st.just(n), reach=st.just(reach), jumps=st.integers(1, reach))
        )
    ),
    "complete_multipartite": parameters(parts=st.integers(2, 6), size=st.integers(1, 6)),
    "cube_connected_arrays": parameters(dimension=st.integers(2, 6)),
    "cube_connected_cycles": parameters(dimension=st.integers(3, 6)),
    "de_bruijn": parameters(dimension=st.integers(2, 8)),
    "disjoint_cliques": parameters(cliques=st.integers(1, 6), size=st.integers(2, 6)),
    "hamming": parameters(length=st.integers(1, 4), letters=st.integers(2, 4)),
    "hypercube": parameters(dimension=st.integers(1, 8)),
    "johnson": st.integers(2, 7).flatmap(lambda n: parameters(n=st.just(n), k=st.integers(1, n - 1))),
    "kneser": st.integers(2, 7).flatmap(lambda n: parameters(n=st.just(n), k=st.integers(1, n // 2))),
    "shuffle_exchange": parameters(dimension=st.integers(2, 8)),
    "torus": parameters(width=st.integers(3, 9), height=st.integers(3, 9)),
    "tree": st.integers(2, 60).flatmap(lambda n: parameters(n=st.just(n), arity=st.integers(1, n - 1))),
}


@pytest.mark.parametrize("name", networks.__all__)
def test_every_construction_is_a_well_formed_undirected_graph(name):
    @given(PARAMETERS[name])
    def check(parameters):
        matrix = make(name, **parameters)
        assert is_symmetric(matrix)
        in_order = make(name, **{**parameters, "shuffle": 0})
        assert sorted(degrees(matrix)) == sorted(degrees(in_order))

    check()


def graph(vertices, joined):
    """Adjacency by trying all pairs."""
    return [[a != b and bool(joined(a, b) or joined(b, a)) for b in vertices] for a in vertices]


def words(dimension):
    return range(2**dimension)


def words_and_levels(dimension):
    return list(itertools.product(words(dimension), range(dimension)))


DEFINITIONS = [
    (
        "butterfly",
        {"dimension": 4},
        words_and_levels(4),
        lambda a, b: (b[1] - a[1]) % 4 == 1 and a[0] ^ b[0] in (0, 2 ** a[1]),
    ),
    (
        "cube_connected_cycles",
        {"dimension": 4},
        words_and_levels(4),
        lambda a, b: (a[0] == b[0] and (b[1] - a[1]) % 4 == 1) or (a[1] == b[1] and a[0] ^ b[0] == 2 ** a[1]),
    ),
    (
        "cube_connected_arrays",
        {"dimension": 4},
        words_and_levels(4),
        lambda a, b: (a[0] == b[0] and b[1] - a[1] == 1) or (a[1] == b[1] and a[0] ^ b[0] == 2 ** a[1]),
    ),
    ("de_bruijn", {"dimension": 5}, words(5), lambda a, b: f"{a:05b}"[1:] == f"{b:05b}"[:-1]),
    (
        "shuffle_exchange",
        {"dimension": 5},
        words(5),
        lambda a, b: f"{a:05b}"[:-1] == f"{b:05b}"[:-1] or f"{a:05b}"[1:] + f"{a:05b}"[0] == f"{b:05b}",
    ),
    ("hypercube", {"dimension": 5}, words(5), lambda a, b: f"{a ^ b:b}".count("1") == 1),
    (
        "hamming",
        {"length": 3, "letters": 4},
        list(itertools.product(range(4), repeat=3)),
        lambda a, b: sum(x != y for x, y in zip(a, b, strict=True)) == 1,
    ),
    ("kneser", {"n": 7, "k": 3}, list(itertools.combinations(range(7), 3)), lambda a, b: not set(a) & set(b)),
    ("johnson", {"n": 7, "k": 3}, list(itertools.combinations(range(7), 3)), lambda a, b: len(set(a) & set(b)) == 2),
    ("complete_multipartite", {"parts": 4, "size": 3}, range(12), lambda a, b: a // 3 != b // 3),
    ("disjoint_cliques", {"cliques": 4, "size": 3}, range(12), lambda a, b: a // 3 == b // 3),
    (
        "torus",
        {"width": 5, "height": 4},
        list(itertools.product(range(4), range(5))),
        lambda a, b: ((b[0] - a[0]) % 4, (b[1] - a[1]) % 5) in ((0, 1), (1, 0)),
    ),
    ("tree", {"n": 14, "arity": 3}, range(14), lambda a, b: 3 * a + 1 <= b <= 3 * a + 3),
]


@pytest.mark.parametrize(("name", "parameters", "vertices", "joined"), DEFINITIONS)
def test_graphs_are_those_of_their_definition(name, parameters, vertices, joined):
    np.testing.assert_array_equal(pattern(make(name, **parameters)), graph(vertices, joined))


@given(PARAMETERS["circulant"])
def test_rows_of_circulants_are_the_first_one_rotated(parameters):
    dense = pattern(make("circulant", **{**parameters, "shuffle": 0}))
    np.testing.assert_array_equal(dense, [np.roll(dense[0], i) for i in range(len(dense))])
    distances = {min(i, len(dense) - i) for i in np.flatnonzero(dense[0]).tolist()}
    assert len(distances) == parameters["jumps"]
    assert max(distances) <= parameters["reach"]


def test_sizes_follow_from_the_parameters():
    assert set(degrees(make("kneser", n=10, k=3))) == {math.comb(7, 3)}
    assert set(degrees(make("johnson", n=10, k=3))) == {21}
    assert make("hamming", length=2, letters=30).shape == (900, 900)


def test_another_order_keeps_the_graph():
    in_order, shuffled = make("hypercube", dimension=6), make("hypercube", dimension=6, shuffle=5)
    assert (pattern(in_order) != pattern(shuffled)).any()
    spectra = [np.linalg.eigvalsh(pattern(m).astype(float)) for m in (in_order, shuffled)]
    np.testing.assert_allclose(*spectra, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "parameters", "expected"),
    [
        ("butterfly", {"dimension": 4}, "5f468a56654e2299"),
        ("cube_connected_cycles", {"dimension": 4}, "7a1999ef814e03de"),
        ("cube_connected_arrays", {"dimension": 4}, "3a2c42d54922c664"),
        ("de_bruijn", {"dimension": 5}, "d71ab40604723ed4"),
        ("shuffle_exchange", {"dimension": 5}, "67fa7545d21b1de9"),
        ("hypercube", {"dimension": 5}, "830fd442722bbe89"),
        ("hamming", {"length": 3, "letters": 4}, "e0fcee2bc4bf2c7d"),
        ("kneser", {"n": 7, "k": 3}, "d4720bf4de890ffe"),
        ("johnson", {"n": 7, "k": 3}, "032365ff34ee00a4"),
        ("complete_multipartite", {"parts": 4, "size": 3}, "7c7a63ebb82c3820"),
        ("disjoint_cliques", {"cliques": 4, "size": 3}, "b3ce25335dd76460"),
        ("tree", {"n": 14, "arity": 3}, "58c7a03fbdd8f6e8"),
        ("circulant", {"n": 50, "jumps": 4, "reach": 20, "seed": 3}, "e3958ebba823f75e"),
        ("torus", {"width": 7, "height": 5}, "527f608d8c874825"),
        ("tree", {"n": 50, "arity": 2, "shuffle": 7}, "ee50c116e1323b53"),
    ],
)
def test_patterns_are_the_same_everywhere(name, parameters, expected):
    assert digest(construct(name, **parameters)) == expected


@pytest.mark.parametrize(
    ("name", "parameters", "argument"),
    [
        ("butterfly", {"dimension": 2}, "dimension"),
        ("cube_connected_arrays", {"dimension": 1}, "dimension"),
        ("cube_connected_cycles", {"dimension": 2.5}, "dimension"),
        ("de_bruijn", {"dimension": 27}, "dimension"),
        ("shuffle_exchange", {"dimension": 1}, "dimension"),
        ("hypercube", {"dimension": 0}, "dimension"),
        ("hamming", {"length": 10, "letters": 1}, "letters"),
        ("hamming", {"length": 24, "letters": 3}, "length"),
        ("kneser", {"n": 5, "k": 3}, "k"),
        ("kneser", {"n": 60, "k": 10}, "k"),
        ("johnson", {"n": 5, "k": 5}, "k"),
        ("johnson", {"n": 61, "k": 5}, "n"),
        ("circulant", {"n": 10, "jumps": 4, "reach": 3}, "jumps"),
        ("circulant", {"n": 10, "jumps": 4, "reach": 6}, "reach"),
        ("complete_multipartite", {"parts": 1, "size": 6}, "parts"),
        ("complete_multipartite", {"parts": 10**4, "size": 10**4}, "parts"),
        ("disjoint_cliques", {"cliques": 3, "size": 1}, "size"),
        ("torus", {"width": 2, "height": 5}, "width"),
        ("torus", {"width": 10**6, "height": 10**6}, "height"),
        ("tree", {"n": 5, "arity": 5}, "arity"),
    ],
)
def test_bad_parameters_are_named(name, parameters, argument):
    with pytest.raises(ParameterError) as caught:
        construct(name, **parameters)
    assert caught.value.argument == argument
