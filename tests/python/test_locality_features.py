"""Features of locality: against a slow reference where no sample is taken, and what they tell apart."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import warploom as wl
from warploom import _core, corpus
from warploom._matrix import as_csr
from warploom.corpus.arrangements import arranged

NAMES = (
    *(f"columns_per_nonzero_{w}" for w in (32, 1024, 16384)),
    *(f"sectors_per_nonzero_{w}" for w in (32, 1024, 16384)),
    *(f"reused_within_{d}" for d in (1024, 16384, 262144)),
    *("first_uses", "mean_distance", "mean_span", "adjacent_overlap", "hidden_overlap", "hub_share"),
)


def from_rows(rows, num_cols):
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.array([c for row in rows for c in row], dtype=np.int32)
    return sp.csr_array((np.ones(len(indices), np.float32), indices, indptr), shape=(len(rows), num_cols))


def ratio(part, whole):
    return part / whole if whole else 0.0


def overlap(pairs, known):
    common = sum(len(set(a) & set(b)) - known for a, b in pairs)
    return ratio(common, sum(min(len(set(a)), len(set(b))) - known for a, b in pairs))


def reference_of_overlap(rows, samples=4096, reach=128):
    """`hidden_overlap` of any matrix with nonzeros: by one search for each sampled column."""
    flat = [(i, j) for i, row in enumerate(rows) for j in row]
    columns = np.array([j for _, j in flat])
    first = {}
    for sample in range(samples):
        place = sample * len(flat) // samples
        first.setdefault(columns[place], place)
    begins = np.cumsum([0, *map(len, rows)])

    def around(place):
        i = flat[place][0]
        return columns[max(begins[i], place - reach) : min(begins[i + 1], place + reach)].tolist()

    pairs = []
    for column, place in first.items():
        later = np.flatnonzero(columns[place + 1 :] == column)
        if len(later) and flat[next_one := place + 1 + later[0]][0] != flat[place][0]:
            pairs.append((around(place), around(next_one)))
    return overlap(pairs, 1)


def reference(rows, num_cols):
    """The definitions, of matrices so small that every row and nonzero is in the sample."""
    found = {}
    flat = [(i, j) for i, row in enumerate(rows) for j in row]
    for window in (32, 1024, 16384):
        parts = [rows[i : i + window] for i in range(0, len(rows), window)]
        found[f"columns_per_nonzero_{window}"] = ratio(sum(len({j for r in p for j in r}) for p in parts), len(flat))
        found[f"sectors_per_nonzero_{window}"] = ratio(
            sum(len({j // 4 for r in p for j in r}) for p in parts), len(flat)
        )
    last, gaps, first = {}, [], 0
    for place, (_, j) in enumerate(flat):
        if j // 4 in last:
            gaps.append(place - last[j // 4])
        else:
            first += 1
        last[j // 4] = place
    for distance in (1024, 16384, 262144):
        found[f"reused_within_{distance}"] = ratio(sum(gap <= distance for gap in gaps), len(flat))
    found["first_uses"] = ratio(first, len(flat))
    distance = sum(abs(j - int(i * num_cols / len(rows))) for i, j in flat)
    found["mean_distance"] = ratio(distance, len(flat) * num_cols)
    spans = [max(row) - min(row) for row in rows if row]
    found["mean_span"] = ratio(sum(spans), len(spans) * num_cols)
    found["adjacent_overlap"] = overlap(list(itertools.pairwise(rows)), 0)
    found["hidden_overlap"] = -1.0  # below 10^6 nonzeros
    kept = {j for _, j in flat[::2]}  # below 4,096 columns
    found["hub_share"] = ratio(sum(j in kept for _, j in flat[1::2]), len(flat) // 2)
    return found


@settings(max_examples=150, deadline=None)
@given(data=st.data(), num_cols=st.integers(0, 60), threads=st.integers(1, 3))
def test_equals_the_reference(data, num_cols, threads):
    row = st.lists(st.integers(0, max(num_cols - 1, 0)), max_size=8 if num_cols else 0)
    rows = data.draw(st.lists(row, max_size=70))
    try:
        _core.set_num_threads(threads)
        found = wl.features.locality(from_rows(rows, num_cols)).as_dict()
    finally:
        _core.set_num_threads(0)
    assert tuple(found) == NAMES
    expected = reference(rows, num_cols)
    for name in NAMES:
        assert found[name] == pytest.approx(expected[name], abs=1e-12), name


def test_long_reuse_equals_the_reference():
    rows = np.random.default_rng(0).integers(0, 3000, (4000, 6)).tolist()
    found = wl.features.locality(from_rows(rows, 3000)).as_dict()
    expected = reference(rows, 3000)
    for name in NAMES:
        assert found[name] == pytest.approx(expected[name], abs=1e-12), name
    assert 0 < found["reused_within_1024"] < found["reused_within_16384"] < 1


def test_samples_of_a_large_matrix_do_not_depend_on_the_number_of_threads():
    A = corpus.load("nearest_points(n=60000,neighbours=12)")
    found = []
    try:
        for threads in (1, 2, 3):
            _core.set_num_threads(threads)
            found.append(wl.features.locality(A))
    finally:
        _core.set_num_threads(0)
    assert found[0] == found[1] == found[2]


@settings(max_examples=150, deadline=None)
@given(data=st.data(), num_cols=st.integers(1, 60), threads=st.integers(1, 3))
def test_hidden_overlap_equals_its_reference(data, num_cols, threads):
    rows = data.draw(st.lists(st.lists(st.integers(0, num_cols - 1), max_size=8), max_size=70))
    view = as_csr(from_rows(rows, num_cols))
    expected = reference_of_overlap(rows) if view.nnz else -1.0
    try:
        _core.set_num_threads(threads)
        assert _core.compute_hidden_overlap(view, 0) == expected
    finally:
        _core.set_num_threads(0)
    assert _core.compute_hidden_overlap(view, view.nnz + 1) == -1


@pytest.mark.parametrize("sort", [True, False])
def test_hidden_overlap_of_more_nonzeros_than_are_sampled(sort):
    random = np.random.default_rng(0)
    lengths = np.r_[random.integers(0, 9, 3000), 700, 0, 900, 300]
    rows = [random.zipf(1.3, length) % 4000 for length in lengths]
    rows = [np.sort(row) if sort else row for row in rows]
    found = _core.compute_hidden_overlap(as_csr(from_rows(rows, 4000)), 0)
    assert found == reference_of_overlap(rows)
    assert 0 < found < 1


def test_hidden_overlap_is_measured_from_a_million_nonzeros_on():
    columns = np.random.default_rng(0).integers(0, 125_000, 1_000_000, dtype=np.int32)
    for rows, measured in ((125_000, True), (124_999, False)):
        indptr = 8 * np.arange(rows + 1)
        A = sp.csr_array((np.ones(8 * rows, np.float32), columns[: 8 * rows], indptr), shape=(rows, 125_000))
        found = wl.features.locality(A)["hidden_overlap"]
        assert 0 <= found < 0.001 if measured else found == -1


def test_hidden_structure_is_told_from_none():
    points = corpus.load("nearest_points(n=60000,neighbours=12)")
    natural, shuffled = (wl.features.locality(arranged(points, how)) for how in ("natural", "shuffled"))
    random = corpus.load("uniform(m=60000,n=60000,per_row=12)")
    uniform = wl.features.locality(random)
    assert _core.compute_hidden_overlap(as_csr(arranged(points, "shuffled")), 0) > 0.2
    assert _core.compute_hidden_overlap(as_csr(random), 0) < 0.01
    assert natural["sectors_per_nonzero_1024"] < 0.1 * shuffled["sectors_per_nonzero_1024"]
    assert shuffled["sectors_per_nonzero_1024"] == pytest.approx(uniform["sectors_per_nonzero_1024"], abs=0.05)
    assert natural["reused_within_1024"] > 0.8 > 0.1 > shuffled["reused_within_1024"]
    assert natural["adjacent_overlap"] > 0.3 > 0.01 > shuffled["adjacent_overlap"]
    assert shuffled["mean_distance"] == pytest.approx(1 / 3, abs=0.01)


def test_a_sample_of_sectors_tells_what_all_of_them_do():
    A = corpus.load("rmat(scale=16,edge_factor=16)")  # four times as many nonzeros as are sampled
    found = wl.features.locality(A).as_dict()
    sectors = A.indices // 4
    order = np.argsort(sectors, kind="stable")
    gaps = np.diff(order)[np.diff(sectors[order]) == 0]
    for distance in (1024, 16384):
        exact = np.count_nonzero(gaps <= distance) / A.nnz
        assert found[f"reused_within_{distance}"] == pytest.approx(exact, abs=0.05)


def test_hubs_are_counted_without_bias():
    hubs = wl.features.locality(corpus.load("rmat(scale=17,edge_factor=16)"))["hub_share"]
    uniform = wl.features.locality(corpus.load("uniform(m=200000,n=200000,per_row=8)"))["hub_share"]
    assert hubs > 0.5
    assert uniform == pytest.approx(4096 / 200_000, abs=0.005)


def test_malformed_matrices_are_refused():
    A = from_rows([[0], [1]], 2)
    A.indices[1] = 7
    with pytest.raises(wl.errors.InvalidMatrixError):
        wl.features.locality(A)
