from __future__ import annotations

import itertools
import signal
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import reference_permutations as reference
from warploom import _core, errors, permutations
from warploom._matrix import as_csr

NAMES = permutations.names()
GREEDY = ("warp-aware", "cta-aware", "hybrid-2.1", "hybrid-2.2", "hybrid-2.3")
NAMES_IN_PAPER_ORDER = ("none", "plain", "flipped", "lpt", "warp-aware", "cta-aware", "hybrid-1", *GREEDY[2:])
LOCALITY = ("rcm", "community", "minhash", "degree")


@pytest.fixture
def number_of_threads():
    yield _core.set_num_threads
    _core.set_num_threads(0)


def from_rows(rows, num_cols):
    """A CSR matrix with exactly these column indices, in this order, duplicates and all."""
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    indices = np.array([c for row in rows for c in row], dtype=np.int32)
    return sp.csr_array((np.ones(len(indices), np.float32), indices, indptr), shape=(len(rows), num_cols))


def uniform(num_rows, num_cols, per_row, seed):
    rng = np.random.default_rng(seed)
    return from_rows(rng.integers(0, num_cols, (num_rows, per_row)).tolist(), num_cols)


def skewed(num_rows, num_cols, seed):
    """A power-law graph: empty rows, a few long ones, columns that most rows use."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum((rng.pareto(1.0, num_rows) * 3).astype(int), num_cols)
    return from_rows([np.minimum(rng.pareto(0.6, n) * 2, num_cols - 1).astype(int).tolist() for n in lengths], num_cols)


def banded(num_rows, half_width, seed):
    rng = np.random.default_rng(seed)
    columns = np.arange(num_rows)[:, None] + rng.integers(-half_width, half_width + 1, (num_rows, 6))
    return from_rows(np.clip(columns, 0, num_rows - 1).tolist(), num_rows)


@st.composite
def matrices(draw, max_rows=40):
    num_cols = draw(st.integers(0, 70))
    column = st.integers(0, max(num_cols - 1, 0))
    row = st.lists(column, max_size=12 if num_cols else 0)
    if draw(st.booleans()) and num_cols:  # rows that lack few of the columns
        row = st.one_of(
            row,
            st.sets(column, max_size=6).map(lambda lacking: [c for c in range(num_cols) if c not in lacking]),
        )
    return from_rows(draw(st.lists(row, max_size=max_rows)), num_cols)


geometries = st.fixed_dictionaries(
    {
        "warps": st.sampled_from([1, 2, 3, 4, 32, 1000]),
        "threads": st.sampled_from([1, 2, 4, 32]),
        "elements_per_cache_line": st.sampled_from([1, 4, 32]),
    }
)


def test_names_are_those_of_the_paper_then_those_for_locality():
    assert (*NAMES_IN_PAPER_ORDER, *LOCALITY) == NAMES
    assert permutations.paper_names() == NAMES_IN_PAPER_ORDER
    assert set(reference.REFERENCES) == set(NAMES)


def test_families():
    families = {
        "none": "none",
        **dict.fromkeys(("plain", "flipped", "lpt"), "load"),
        **dict.fromkeys(("warp-aware", "cta-aware"), "cache lines"),
        **dict.fromkeys(("hybrid-1", *GREEDY[2:]), "load and cache lines"),
        **dict.fromkeys(LOCALITY, "locality"),
    }
    assert {name: permutations.family(name) for name in NAMES} == families
    symmetric = {name for name in NAMES if permutations.is_symmetric(name)}
    assert symmetric == {"none", "rcm", "community", "degree"}


@pytest.mark.parametrize("name", NAMES)
def test_every_permutation_has_a_one_line_summary(name):
    assert permutations.summary(name)
    assert "\n" not in permutations.summary(name)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=120, deadline=None)
@given(A=matrices(), geometry=geometries)
def test_equals_the_reference(name, A, geometry):
    perm = permutations.compute(name, A, **geometry)
    assert perm.dtype == np.int32
    np.testing.assert_array_equal(perm, reference.compute(name, A, **geometry))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0), (1, 1), (1, 50), (70, 1)])
def test_degenerate_shapes(name, shape):
    for A in (sp.csr_array(shape), sp.csr_array(np.ones(shape))):
        np.testing.assert_array_equal(permutations.compute(name, A), reference.compute(name, A))


@pytest.mark.parametrize("name", NAMES)
def test_unsorted_and_repeated_indices(name):
    A = from_rows([[9, 1, 1, 30], [], [30, 9, 1], [2], [2, 2, 2, 2, 2]], 31)
    geometry = {"warps": 2, "threads": 2, "elements_per_cache_line": 4}
    np.testing.assert_array_equal(permutations.compute(name, A, **geometry), reference.compute(name, A, **geometry))


# Large enough that the search rebuilds itself many times, in each of its two ways of counting overlaps.
LARGE = {
    "uniform": lambda: uniform(1500, 3000, 8, seed=1),
    "sparse": lambda: uniform(1500, 4000, 2, seed=9),
    "dense": lambda: uniform(1000, 3000, 60, seed=2),
    "nearly full": lambda: uniform(700, 600, 100, seed=3),
    "skewed": lambda: skewed(1200, 2000, seed=4),
    "banded": lambda: banded(1500, 40, seed=5),
    "diagonal": lambda: sp.csr_array(sp.eye_array(1200).tocsr()[np.random.default_rng(6).permutation(1200)]),
}


@pytest.mark.parametrize("kind", LARGE)
@pytest.mark.parametrize("line", [1, 8, 32])
@pytest.mark.parametrize("name", GREEDY)
def test_large_matrices_equal_brute_force(name, line, kind):
    A = LARGE[kind]()
    geometry = {"warps": 8, "threads": 4, "elements_per_cache_line": line}
    np.testing.assert_array_equal(
        permutations.compute(name, A, **geometry), reference.matrix_greedy(A, name, **geometry)
    )


@pytest.mark.parametrize("name", ["hybrid-1", "lpt"])
@pytest.mark.parametrize("kind", ["uniform", "skewed"])
def test_large_matrices_equal_the_reference(name, kind):
    A = LARGE[kind]()[:500]
    np.testing.assert_array_equal(permutations.compute(name, A, warps=8), reference.compute(name, A, warps=8))


def test_wide_matrix_with_few_occupied_columns():
    A = from_rows([[2_000_000_000, 5], [5], [], [2_000_000_000], [1_000_000_000, 5]], 2_147_483_647)
    for name, line in itertools.product(NAMES, (1, 32)):
        geometry = {"warps": 2, "threads": 1, "elements_per_cache_line": line}
        np.testing.assert_array_equal(permutations.compute(name, A, **geometry), reference.compute(name, A, **geometry))


def test_many_masks_without_bitmaps():
    # One entry a row in its own column: 30,000^2 / 8 bytes are beyond what bitmaps may take.
    rows = 30_000
    A = from_rows([[c] for c in np.random.default_rng(7).permutation(rows)], rows)
    for name in ("cta-aware", "hybrid-2.2"):
        perm = permutations.compute(name, A, elements_per_cache_line=1)
        np.testing.assert_array_equal(perm, np.arange(rows))  # all distances are equal


def test_package_brute_force_agrees():
    for A in (LARGE["uniform"](), LARGE["skewed"]()):
        brute = _core._cta_aware_by_brute_force(as_csr(A, pattern_only=True))
        np.testing.assert_array_equal(brute, permutations.compute("cta-aware", A))


@pytest.mark.parametrize("name", NAMES)
def test_number_of_threads_does_not_matter(name):
    A = LARGE["skewed"]()
    expected = permutations.compute(name, A)
    try:
        for threads in (1, 2, 5):
            _core.set_num_threads(threads)
            np.testing.assert_array_equal(permutations.compute(name, A), expected)
    finally:
        _core.set_num_threads(0)


def test_calls_from_several_threads_do_not_disturb_each_other():
    A = LARGE["uniform"]()
    expected = permutations.compute("hybrid-2.2", A)
    found = [None] * 4

    def work(i):
        found[i] = permutations.compute("hybrid-2.2", A)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(found))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for perm in found:
        np.testing.assert_array_equal(perm, expected)


def warp_totals(A, perm, warps, threads):
    loads = np.array(reference.warp_loads(A, threads))[perm]
    return [int(loads[w::warps].sum()) for w in range(warps)]


def test_balance_of_the_papers_example():
    # Figure 7: the loads of 4 warps are 12, 13, 10, 10 in the original order and 12, 11, 11, 11 after LPT.
    # The figure's pattern is not given, so the single loads are ours; the sums are the figure's.
    loads = [5, 6, 4, 3, 5, 3, 3, 5, 2, 4, 3, 2]
    A = from_rows([[0] * load for load in loads], 1)
    assert warp_totals(A, permutations.compute("none", A), 4, 1) == [12, 13, 10, 10]
    for name in ("lpt", "hybrid-1"):
        perm = permutations.compute(name, A, warps=4, threads=1)
        assert warp_totals(A, perm, 4, 1) == [12, 11, 11, 11]


@settings(max_examples=100, deadline=None)
@given(A=matrices(), warps=st.integers(1, 9), threads=st.integers(1, 4))
def test_hybrid_1_balances_as_lpt_does(A, warps, threads):
    totals = [
        warp_totals(A, permutations.compute(name, A, warps=warps, threads=threads), warps, threads)
        for name in ("lpt", "hybrid-1")
    ]
    assert totals[0] == totals[1]


def test_lpt_keeps_to_the_positions_a_warp_has():
    # Greedy alone would give the load-9 row a warp of its own; with 6 rows on 2 warps each takes three.
    A = from_rows([[0] * load for load in (9, 1, 1, 1, 1, 1)], 1)
    perm = permutations.compute("lpt", A, warps=2, threads=1)
    np.testing.assert_array_equal(perm, [0, 1, 4, 2, 5, 3])


def test_flipped_reverses_a_partial_last_group_within_itself():
    A = from_rows([[0] * load for load in (6, 5, 4, 3, 2)], 1)
    np.testing.assert_array_equal(permutations.compute("flipped", A, warps=3, threads=1), [0, 1, 2, 4, 3])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("argument", ["warps", "threads", "elements_per_cache_line"])
@pytest.mark.parametrize("value", [0, -1, 2**31, 2**70, 1.5, "32", None])
def test_invalid_geometry(name, argument, value):
    with pytest.raises(errors.ParameterError, match=argument) as caught:
        permutations.compute(name, sp.csr_array((3, 3)), **{argument: value})
    assert caught.value.argument == argument


@pytest.mark.parametrize("argument", ["warps", "threads", "elements_per_cache_line"])
@pytest.mark.parametrize("name", NAMES)
def test_largest_geometry(name, argument):
    A = skewed(50, 100, seed=8)
    geometry = {argument: 2**31 - 1}
    np.testing.assert_array_equal(permutations.compute(name, A, **geometry), reference.compute(name, A, **geometry))


def test_unknown_name():
    for call in (
        lambda: permutations.summary("best"),
        lambda: permutations.family("best"),
        lambda: permutations.is_symmetric("best"),
        lambda: permutations.compute("best", sp.csr_array((1, 1))),
    ):
        with pytest.raises(errors.ParameterError, match=r"'best'.*hybrid-2\.3"):
            call()


def test_malformed_matrix():
    A = from_rows([[0], [1]], 2)
    A.indices[1] = 7
    with pytest.raises(errors.InvalidMatrixError):
        permutations.compute("plain", A)
    with pytest.raises(errors.InvalidMatrixError):
        permutations.apply(A, [0, 1])


@given(perm=st.integers(0, 50).flatmap(lambda n: st.permutations(range(n))))
def test_invert(perm):
    inverse = permutations.invert(perm)
    assert inverse.dtype == np.int32
    np.testing.assert_array_equal(inverse[perm], np.arange(len(perm)))
    np.testing.assert_array_equal(permutations.invert(inverse), perm)


@settings(deadline=None)
@given(A=matrices(), data=st.data())
def test_apply_is_row_indexing(A, data):
    perm = data.draw(st.permutations(range(A.shape[0])))
    A.data[:] = np.arange(A.nnz)
    permuted = permutations.apply(A, perm)
    assert permuted.shape == A.shape
    assert permuted.dtype == A.dtype
    for new, old in enumerate(perm):
        for array in ("indices", "data"):
            np.testing.assert_array_equal(
                getattr(permuted, array)[permuted.indptr[new] : permuted.indptr[new + 1]],
                getattr(A, array)[A.indptr[old] : A.indptr[old + 1]],
            )


def spoiled(format):
    """A matrix with an index out of range, assigned after SciPy looked at the arrays."""
    A = sp.csr_array(np.eye(4)).asformat(format)
    if format == "coo":
        A.coords = (np.full(4, 2**30, np.int32), A.coords[1])
    elif format == "dia":
        A.data = A.data[:0]
    else:
        A.indices = np.full(4, 2**30, np.int32)
    return A


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "bsr", "dia"])
def test_apply_validates_before_anything_computes_with_the_arrays(format):
    with pytest.raises(errors.InvalidMatrixError):
        permutations.apply(spoiled(format), [3, 1, 0, 2])


@pytest.mark.parametrize("dtype", [np.bool_, np.int64, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("format", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
def test_apply_to_every_format_keeps_the_type_of_the_values(format, dtype):
    A = sp.csr_array(np.array([[0, 1, 0], [2, 0, 3], [0, 0, 0]]).astype(dtype if dtype != np.float16 else np.float32))
    if dtype == np.float16:
        if format not in ("csr", "csc", "coo", "bsr"):
            pytest.skip("SciPy has no such matrix")
        A = A.asformat(format)
        A.data = A.data.astype(np.float16)
    permuted = permutations.apply(A.asformat(format), [1, 2, 0])
    assert permuted.dtype == dtype
    np.testing.assert_array_equal(permuted.astype(np.float64).toarray(), A.astype(np.float64).toarray()[[1, 2, 0]])


def test_apply_to_arrays_longer_than_need_be():
    A = sp.csr_array((3, 3))
    A.indptr = np.array([0, 1, 1, 3], np.int32)
    A.indices, A.data = np.array([2, 0, 1, 77], np.int32), np.array([1.0, 2, 3, np.nan, np.nan])
    np.testing.assert_array_equal(permutations.apply(A, [2, 1, 0]).toarray(), [[2, 3, 0], [0, 0, 0], [0, 0, 1]])


def test_a_misaligned_permutation():
    aligned = np.array([2, 0, 1], np.int32)
    perm = np.frombuffer(b"\0" + aligned.tobytes(), np.int32, offset=1)
    assert not perm.flags.aligned
    assert permutations._as_int32(perm).flags.aligned
    np.testing.assert_array_equal(permutations.invert(perm), [1, 2, 0])
    np.testing.assert_array_equal(permutations.apply(sp.csr_array(np.eye(3)), perm).indices, aligned)


def test_a_ragged_permutation_is_refused():
    with pytest.raises(errors.ParameterError, match="perm") as caught:
        permutations.invert([[0], [1, 2]])
    assert caught.value.argument == "perm"


@pytest.mark.parametrize("call", [permutations.invert, lambda perm: permutations.apply(sp.csr_array((3, 3)), perm)])
@pytest.mark.parametrize(
    ("perm", "position"),
    [
        ([0, 1, 1], 2),
        ([0, 0, 0], 1),
        ([0, 3, 7], 1),
        ([-1, 0, 1], 0),
        ([0, 1, 2**32], 2),
        ([0.0, 1.0, 2.0], None),
        ([[0, 1, 2]], None),
    ],
)
def test_invalid_permutation(call, perm, position):
    with pytest.raises(errors.ParameterError) as caught:
        call(perm)
    assert caught.value.argument == "perm"
    assert caught.value.position == position


# ----- orders for locality -----


@pytest.mark.parametrize("name", LOCALITY)
@settings(max_examples=150, deadline=None)
@given(A=matrices(), square=st.booleans(), threads=st.integers(1, 3))
def test_order_for_locality_equals_the_reference_for_any_number_of_threads(name, A, square, threads):
    if square:
        size = max(A.shape)
        A = sp.csr_array((A.data, A.indices, np.pad(A.indptr, (0, size - A.shape[0]), "edge")), shape=(size, size))
    try:
        _core.set_num_threads(threads)
        perm = permutations.compute(name, A)
    finally:
        _core.set_num_threads(0)
    np.testing.assert_array_equal(np.sort(perm), np.arange(A.shape[0]))
    np.testing.assert_array_equal(perm, reference.compute(name, A))


def grid(width, height):
    def path(n):
        return sp.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1])

    return sp.csr_array(sp.kronsum(path(width), path(height), format="csr"))


def shuffled(A, seed, columns=True):
    perm = np.random.default_rng(seed).permutation(A.shape[0])
    A = A[perm]
    return sp.csr_array(A[:, perm] if columns else A)


def planted(communities, size, inside, outside, seed):
    """A graph of communities of equal size in random order, unsymmetric, and the community of each node."""
    rng = np.random.default_rng(seed)
    nodes = communities * size
    of_node = rng.permutation(np.repeat(np.arange(communities), size))
    members = np.argsort(of_node, kind="stable").reshape(communities, size)
    near = members[of_node[:, None], rng.integers(0, size, (nodes, inside))]
    far = rng.integers(0, nodes, (nodes, outside))
    return from_rows(np.hstack([near, far]).tolist(), nodes), of_node


# Wide levels, so that each takes several threads; hubs; several components; rectangular both ways.
WIDE = {
    "uniform": lambda: uniform(6000, 6000, 5, seed=11),
    "tall": lambda: uniform(6000, 3000, 3, seed=12),
    "wide": lambda: uniform(3000, 9000, 3, seed=13),
    "skewed": lambda: skewed(6000, 6000, seed=14),
    "grids": lambda: sp.csr_array(
        sp.block_diag([shuffled(grid(40, 50), s) for s in range(3)] + [sp.csr_array((9, 9))])
    ),
    "star": lambda: from_rows([list(range(5000))] + [[] for _ in range(4999)], 5000),
    "path": lambda: shuffled(grid(3000, 1), 15),
}


@pytest.mark.parametrize("kind", WIDE)
@pytest.mark.parametrize("name", LOCALITY)
def test_larger_matrices_equal_the_reference_for_any_number_of_threads(name, kind, number_of_threads):
    A = WIDE[kind]()
    expected = reference.compute(name, A)
    for threads in (1, 2, 3):
        number_of_threads(threads)
        np.testing.assert_array_equal(permutations.compute(name, A), expected)


@pytest.mark.parametrize("name", LOCALITY)
def test_locality_depends_on_the_set_of_columns_alone(name):
    A = from_rows([[3, 1], [0, 2], [], [1, 0, 4], [3]], 5)
    B = from_rows([[1, 3], [2, 0], [], [4, 0, 1], [3]], 5)
    np.testing.assert_array_equal(permutations.compute(name, A), permutations.compute(name, B))
    if name != "degree":  # which counts entries
        C = from_rows([[1, 3, 3], [2, 0], [], [4, 0, 1, 4], [3, 3]], 5)
        np.testing.assert_array_equal(permutations.compute(name, A), permutations.compute(name, C))


def half_bandwidth(A, perm):
    place = permutations.invert(perm)
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    return int(np.abs(place[rows] - place[A.indices]).max())


def test_rcm_narrows_the_band_about_as_much_as_that_of_scipy():
    A = shuffled(grid(100, 100), seed=20)
    theirs = half_bandwidth(A, sp.csgraph.reverse_cuthill_mckee(sp.csr_matrix(A), symmetric_mode=True))
    ours = half_bandwidth(A, permutations.compute("rcm", A))
    assert ours <= 1.5 * theirs
    assert ours < half_bandwidth(A, np.arange(A.shape[0])) / 50


def test_rcm_of_a_rectangular_matrix_brings_rows_that_share_columns_together():
    natural = from_rows([[i, i + 1, i + 2] for i in range(3000)], 3002)
    shuffled_rows = np.random.default_rng(21).permutation(3000)
    found = shuffled_rows[permutations.compute("rcm", natural[shuffled_rows])]
    assert np.abs(np.diff(found)).max() <= 4


def test_communities_are_recovered():
    A, of_node = planted(communities=200, size=50, inside=12, outside=4, seed=22)
    found = of_node[permutations.compute("community", A)]
    runs = 1 + np.count_nonzero(np.diff(found))
    assert runs < 1.1 * 200  # each community is one range, but for a few nodes


@pytest.mark.parametrize(("name", "share"), [("community", 0.9), ("rcm", 0.6)])
def test_neighbours_in_a_shuffled_grid_come_near_each_other(name, share):
    A = shuffled(grid(120, 100), seed=23)
    place = permutations.invert(permutations.compute(name, A))
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    assert np.mean(np.abs(place[rows] - place[A.indices]) <= 256) > share
    assert np.mean(np.abs(rows - A.indices) <= 256) < 0.1


def test_minhash_brings_equal_and_similar_rows_together():
    rng = np.random.default_rng(24)
    kinds = [rng.choice(20_000, 30, replace=False) for _ in range(400)]
    of_row = rng.permutation(np.repeat(np.arange(400), 5))
    A = from_rows([kinds[kind].tolist() for kind in of_row], 20_000)
    assert np.count_nonzero(np.diff(of_row[permutations.compute("minhash", A)])) == 399  # equal rows are adjacent
    similar = from_rows([kinds[kind][rng.random(30) < 0.95].tolist() for kind in of_row], 20_000)
    assert np.count_nonzero(np.diff(of_row[permutations.compute("minhash", similar)])) < 1000  # of 1995 in random order


def test_degree_puts_hubs_first():
    A = skewed(3000, 3000, seed=25)
    degrees = np.diff(A.indptr) + np.bincount(A.indices, minlength=3000)
    ordered = degrees[permutations.compute("degree", A)]
    mean = degrees.mean()
    assert ordered[0] >= 8 * mean
    for bound in (32, 16, 8, 4, 2, 1, 0.5):
        above = ordered >= bound * mean
        assert not np.any(np.diff(above.astype(int)) > 0)


class Interrupted(Exception):
    pass


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer that interrupts")
@pytest.mark.parametrize("name", ["hybrid-2.2", "community"])
def test_a_signal_ends_a_search_that_takes_long(name):
    rows, columns, per_row = 250_000, 5000, 20  # takes several seconds
    indices = np.random.default_rng(0).integers(0, columns, rows * per_row).astype(np.int32)
    indptr = np.arange(0, rows * per_row + 1, per_row)
    A = sp.csr_array((np.ones(len(indices), np.float32), indices, indptr), shape=(rows, columns))

    def interrupt(number, frame):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        start = time.process_time()  # of all threads, and of nothing else that runs here
        with pytest.raises(Interrupted):
            permutations.compute(name, A)
        assert time.process_time() - start < 2 * _core.num_threads()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_apply_needs_one_entry_a_row():
    with pytest.raises(errors.ParameterError, match="one entry per row"):
        permutations.apply(sp.csr_array((3, 3)), [1, 0])


def test_where_it_is_computed_is_said_by_name():
    A = uniform(50, 50, 3, 0)
    expected = permutations.compute("community", A)
    np.testing.assert_array_equal(permutations.compute("community", A, device="cpu"), expected)
    with pytest.raises(errors.ParameterError, match="unknown device 'gpu'"):
        permutations.compute("community", A, device="gpu")
    with pytest.raises(errors.DeviceError, match="there is no GPU 99"):
        permutations.compute("community", A, device="cuda:99")
