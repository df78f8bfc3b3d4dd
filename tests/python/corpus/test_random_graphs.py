from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse.csgraph
from hypothesis import given
from hypothesis import strategies as st
from well_formed import degrees, digest, is_symmetric, make, pattern

from warploom.corpus.constructions import construct, random_graphs
from warploom.errors import ParameterError

SEED = st.integers(0, 2**70)
SHUFFLE = st.integers(0, 3)
PERCENTAGE = st.integers(0, 100)
EXPONENT = st.integers(15, 60)


def parameters(**strategies):
    return st.fixed_dictionaries({**strategies, "seed": SEED})


def sized(least, **strategies):
    """With a number of vertices, and a degree below it."""
    return st.integers(least, 80).flatmap(
        lambda n: parameters(n=st.just(n), degree=st.integers(1, min(n - 1, 12)), **strategies)
    )


PARAMETERS = {
    "citation": sized(2, copying=PERCENTAGE, exponent=EXPONENT, shuffle=SHUFFLE),
    "hub_graph": sized(2, dense=st.integers(1, 2), fill=st.integers(1, 100)),
    "erdos_renyi": sized(2),
    "hierarchical_graph": parameters(
        scale=st.integers(2, 6), degree=st.integers(1, 3), closer=st.integers(5, 95), shuffle=SHUFFLE
    ),
    "hypersparse_graph": parameters(n=st.integers(20, 90), entries=st.integers(1, 20)),
    "kron_g500": parameters(scale=st.integers(2, 6), edge_factor=st.integers(1, 9), shuffle=SHUFFLE),
    "power_law": sized(2, exponent=EXPONENT, most=st.integers(0, 2), shuffle=SHUFFLE),
    "preferential_attachment": parameters(n=st.integers(2, 80), edges=st.integers(1, 6), shuffle=SHUFFLE),
    "random_bipartite": parameters(rows=st.integers(1, 40), cols=st.integers(5, 40), degree=st.integers(1, 5)),
    "random_directed": sized(2),
    "random_regular": st.integers(4, 20).flatmap(
        lambda half: parameters(n=st.just(2 * half), degree=st.integers(1, half // 2))
    ),
    "random_tree": parameters(n=st.integers(2, 80), reach=st.integers(0, 2), shuffle=SHUFFLE),
    "ratings": parameters(
        rows=st.integers(2, 40),
        cols=st.integers(5, 40),
        degree=st.integers(1, 5),
        exponent=EXPONENT,
        shuffle=st.integers(0, 1),
    ),
    "rmat": parameters(
        scale=st.integers(2, 6),
        edge_factor=st.integers(1, 9),
        a=st.integers(0, 40),
        b=st.integers(0, 30),
        c=st.integers(0, 30),
        shuffle=SHUFFLE,
    ),
    "small_world": parameters(
        n=st.integers(8, 80), degree=st.sampled_from([2, 4, 6]), rewired=PERCENTAGE, shuffle=SHUFFLE
    ),
    "stochastic_block": parameters(
        blocks=st.integers(1, 6), size=st.integers(4, 9), degree=st.integers(1, 3), outside=PERCENTAGE, shuffle=SHUFFLE
    ),
    "web_crawl": sized(4, host=st.integers(2, 4), outside=PERCENTAGE, exponent=EXPONENT, shuffle=SHUFFLE),
}
DIRECTED = {"citation", "hub_graph", "hypersparse_graph", "random_directed", "rmat", "web_crawl"}
RECTANGULAR = {"random_bipartite", "ratings"}


@pytest.mark.parametrize("name", random_graphs.__all__)
def test_every_construction_is_well_formed(name):
    @given(PARAMETERS[name])
    def check(parameters):
        matrix = make(name, **parameters)
        if name in DIRECTED:
            assert not pattern(matrix).diagonal().any()
        elif name not in RECTANGULAR:
            assert is_symmetric(matrix)

    check()


@pytest.mark.parametrize("name", sorted(DIRECTED - {"hub_graph", "hypersparse_graph"}))
def test_directed_graphs_are_unsymmetric(name):
    size = {"scale": 8} if name == "rmat" else {"n": 256, "degree": 4}
    assert not is_symmetric(construct(name, **size))


SMALL = [
    ("citation", {"n": 200, "degree": 6}, "e1e02870a9c1c907"),
    ("hub_graph", {"n": 200, "degree": 3, "dense": 2}, "d6900f9a81af8d8a"),
    ("erdos_renyi", {"n": 200, "degree": 6}, "3126a98062f6d592"),
    ("hierarchical_graph", {"scale": 8, "degree": 6}, "e39be08bed610213"),
    ("hypersparse_graph", {"n": 1000, "entries": 50}, "3d0b7c721ee637c6"),
    ("kron_g500", {"scale": 8, "shuffle": 2}, "1d40833b14001522"),
    ("power_law", {"n": 200, "degree": 6}, "4f12ddb50ec9a9c6"),
    ("preferential_attachment", {"n": 200}, "860c8b8ef3e3dd4a"),
    ("random_bipartite", {"rows": 100, "cols": 70, "degree": 4}, "f74684625642206a"),
    ("random_directed", {"n": 200, "degree": 6}, "08f3520a181d60fa"),
    ("random_regular", {"n": 200, "degree": 6}, "a12f346522ab3a70"),
    ("random_tree", {"n": 200, "reach": 30}, "596e42245a02c16e"),
    ("ratings", {"rows": 200, "cols": 90, "degree": 6}, "c01a66b0b9b5047d"),
    ("rmat", {"scale": 8}, "d57da596d3e08e1d"),
    ("small_world", {"n": 200}, "2cedfc5303c5dade"),
    ("stochastic_block", {"blocks": 10, "size": 20, "degree": 6}, "c4e01b282b044dbd"),
    ("web_crawl", {"n": 300, "degree": 6, "host": 20}, "3a4bc2c925fa2419"),
]


@pytest.mark.parametrize(("name", "parameters", "expected"), SMALL)
def test_patterns_are_the_same_everywhere(name, parameters, expected):
    assert digest(construct(name, **parameters)) == expected


@pytest.mark.parametrize(("name", "parameters"), [(name, parameters) for name, parameters, _ in SMALL])
def test_another_seed_makes_another_matrix(name, parameters):
    assert digest(construct(name, **parameters)) != digest(construct(name, **parameters, seed=77))


@pytest.mark.parametrize("name", ["erdos_renyi", "random_directed"])
def test_uniform_graphs_have_degrees_near_a_poisson_distribution(name):
    lengths = degrees(construct(name, n=20_000, degree=10))
    assert lengths.mean() == pytest.approx(10, abs=0.1)
    assert lengths.var() == pytest.approx(10, abs=0.5)


@pytest.mark.parametrize(("n", "degree"), [(8, 2), (9, 2), (1000, 3), (400, 100), (64, 16)])
def test_regular_graphs_are_regular(n, degree):
    assert set(degrees(construct("random_regular", n=n, degree=degree))) == {degree}


def test_the_tail_of_a_power_law_has_its_exponent():
    for exponent in (25, 30):
        lengths = degrees(construct("power_law", n=100_000, degree=8, exponent=exponent))
        long, longer = (lengths >= 20).sum(), (lengths >= 80).sum()
        assert np.log(long / longer) / np.log(4) == pytest.approx(exponent / 10 - 1, abs=0.2)
        assert lengths.mean() == pytest.approx(8, rel=0.1)


def test_most_limits_the_degrees_of_a_power_law():
    assert degrees(make("power_law", n=5000, degree=8, exponent=20, most=50)).max() <= 50


def test_preferential_attachment_has_the_exponent_of_barabasi_and_albert():
    lengths = degrees(construct("preferential_attachment", n=50_000))
    assert lengths.mean() == pytest.approx(10, abs=0.1)
    assert np.log((lengths >= 20).sum() / (lengths >= 80).sum()) / np.log(4) == pytest.approx(2, abs=0.2)


def test_recursive_matrices_fill_their_quadrants_by_the_percentages():
    matrix = make("rmat", scale=13, edge_factor=2, a=40, b=30, c=20)
    half = matrix.shape[0] // 2
    shares = [
        matrix[rows][:, cols].nnz / matrix.nnz
        for rows in (slice(half), slice(half, None))
        for cols in (slice(half), slice(half, None))
    ]
    np.testing.assert_allclose(shares, [0.4, 0.3, 0.2, 0.1], atol=0.02)


def test_the_graph500_graph_is_skewed():
    lengths = degrees(make("kron_g500", scale=12))
    assert lengths.max() > 40 * lengths.mean()
    assert (lengths == 0).mean() > 0.1


def test_small_worlds_without_rewiring_are_circulants():
    dense = pattern(make("small_world", n=40, degree=6, rewired=0))
    np.testing.assert_array_equal(dense, [np.roll(dense[0], i) for i in range(40)])
    assert np.flatnonzero(dense[0]).tolist() == [1, 2, 3, 37, 38, 39]


def test_communities_hold_the_edges_that_do_not_lead_outside():
    matrix = make("stochastic_block", blocks=20, size=100, degree=10, outside=30).tocoo()
    inside = (matrix.row // 100 == matrix.col // 100).mean()
    assert inside == pytest.approx(0.7 + 0.3 / 20, abs=0.02)


def test_hierarchies_have_fewer_edges_on_higher_levels():
    matrix = make("hierarchical_graph", scale=16, degree=3, closer=30).tocoo()
    level = np.floor(np.log2(matrix.row ^ matrix.col))
    counts = np.bincount(level.astype(int), minlength=12)[3:9]
    np.testing.assert_allclose(counts[1:] / counts[:-1], 0.7, atol=0.1)


@given(PARAMETERS["random_tree"])
def test_trees_are_connected_without_a_cycle(parameters):
    matrix = make("random_tree", **parameters)
    assert matrix.nnz == 2 * parameters["n"] - 2
    assert scipy.sparse.csgraph.connected_components(matrix)[0] == 1


def test_the_reach_of_a_tree_is_its_bandwidth():
    matrix = make("random_tree", n=500, reach=7).tocoo()
    assert abs(matrix.row - matrix.col).max() == 7


@given(PARAMETERS["citation"])
def test_papers_cite_earlier_ones(parameters):
    matrix = make("citation", **{**parameters, "shuffle": 0}).tocoo()
    assert (matrix.col < matrix.row).all()


def test_copied_references_make_papers_much_cited():
    longest = [
        np.bincount(construct("citation", n=20_000, degree=8, copying=copying).indices).max() for copying in (0, 60)
    ]
    assert longest[1] > 5 * longest[0]


def test_links_stay_near_but_for_those_that_leave_the_host():
    distances = []
    for outside in (0, 60):
        matrix = construct("web_crawl", n=20_000, degree=8, host=50, outside=outside).tocoo()
        distances.append((abs(matrix.row - matrix.col) > 2000).mean())
    assert distances[0] < 0.2 < 0.3 < distances[1]


def test_pages_at_the_front_of_a_host_have_many_links():
    counts = np.bincount(construct("web_crawl", n=20_000, degree=8).indices, minlength=20_000)
    assert counts.max() > 20 * counts.mean()


def test_ratings_have_long_tails_both_ways_and_a_number_near_the_mean():
    matrix = make("ratings", rows=20_000, cols=2000, degree=10, exponent=25)
    assert 7 < degrees(matrix).mean() <= 10.5
    columns = np.bincount(matrix.indices, minlength=2000)
    assert degrees(matrix).max() > 20 * degrees(matrix).mean()
    assert columns.max() > 10 * columns.mean()


def test_descending_orders_put_long_rows_first():
    for name, size in (("power_law", {"n": 5000}), ("ratings", {"rows": 5000, "cols": 5000})):
        lengths = degrees(make(name, degree=10, **size))
        assert lengths[:500].mean() > 3 * lengths[-2500:].mean()


def test_hypersparse_rows_are_mostly_empty():
    assert (degrees(make("hypersparse_graph", n=10_000, entries=500)) == 0).mean() > 0.9


def test_dense_rows_are_as_many_and_as_full_as_asked_for():
    lengths = np.sort(degrees(make("hub_graph", n=2000, degree=5, dense=3, fill=40)))
    np.testing.assert_allclose(lengths[-3:], 800, atol=100)
    assert lengths[-4] < 30


@pytest.mark.parametrize(
    ("name", "parameters", "argument"),
    [
        ("kron_g500", {"scale": 1}, "scale"),
        ("kron_g500", {"scale": 26, "edge_factor": 64}, "edge_factor"),
        ("rmat", {"scale": 5, "edge_factor": 0}, "edge_factor"),
        ("rmat", {"scale": 5, "a": 101}, "a"),
        ("rmat", {"scale": 5, "a": 60, "b": 50}, "b"),
        ("rmat", {"scale": 5, "a": 60, "b": 20, "c": 30}, "c"),
        ("erdos_renyi", {"n": 1, "degree": 1}, "n"),
        ("erdos_renyi", {"n": 10, "degree": 10}, "degree"),
        ("random_directed", {"n": 10**8, "degree": 100}, "degree"),
        ("random_bipartite", {"rows": 10, "cols": 5, "degree": 6}, "degree"),
        ("random_regular", {"n": 9, "degree": 1}, "degree"),
        ("random_regular", {"n": 20, "degree": 6}, "degree"),
        ("preferential_attachment", {"n": 10, "edges": 0}, "edges"),
        ("power_law", {"n": 10, "degree": 2, "exponent": 14}, "exponent"),
        ("power_law", {"n": 10, "degree": 2, "most": 11}, "most"),
        ("ratings", {"rows": 10, "cols": 5, "degree": 2, "shuffle": 2}, "shuffle"),
        ("ratings", {"rows": 1, "cols": 5, "degree": 2}, "rows"),
        ("small_world", {"n": 10, "degree": 3}, "degree"),
        ("small_world", {"n": 10, "rewired": 101, "degree": 2}, "rewired"),
        ("stochastic_block", {"blocks": 0, "size": 3, "degree": 1}, "blocks"),
        ("stochastic_block", {"blocks": 10**7, "size": 10**7, "degree": 1}, "size"),
        ("hierarchical_graph", {"scale": 5, "degree": 2, "closer": 96}, "closer"),
        ("random_tree", {"n": 5, "reach": 6}, "reach"),
        ("citation", {"n": 5, "degree": 2, "copying": -1}, "copying"),
        ("web_crawl", {"n": 50, "degree": 2, "host": 1}, "host"),
        ("hypersparse_graph", {"n": 50, "entries": 51}, "entries"),
        ("hub_graph", {"n": 50, "degree": 2, "dense": 0}, "dense"),
        ("hub_graph", {"n": 50, "degree": 2, "dense": 1, "fill": 101}, "fill"),
        ("hub_graph", {"n": 50, "degree": "2", "dense": 1}, "degree"),
    ],
)
def test_bad_parameters_are_named(name, parameters, argument):
    with pytest.raises(ParameterError) as caught:
        construct(name, **parameters)
    assert caught.value.argument == argument
