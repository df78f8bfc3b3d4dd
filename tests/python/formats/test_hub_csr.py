"""CSR with hubs: the format and its product on the CPU."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from battery import battery
from round_trips import DTYPES, assert_round_trip, assert_spmv, koza_2_1, spmv
from strategies import csr_matrices
from warploom.errors import ParameterError
from warploom.formats import HubCSR

SMALL = st.sampled_from([1, 2, 4])
KERNEL = "hub-csr/segmented_sum"


def check_arrays(stored, A, hubs):
    """Check which columns are hubs, and that the lanes of a row hold its entries in their order."""
    counts = np.bincount(A.indices, minlength=A.shape[1])
    by_count = sorted(np.flatnonzero(counts > 1), key=lambda column: (-counts[column], column))
    assert stored.hubs.tolist() == sorted(by_count[:hubs])
    assert stored.places == len(stored.lanes) * stored.entries_per_lane
    assert stored.places % 128 == 0
    lengths = np.diff(A.indptr)
    np.testing.assert_array_equal(stored.empty_rows, np.flatnonzero(lengths == 0))
    filled = stored.columns >= 0
    np.testing.assert_array_equal(stored.columns[filled], A.indices)
    np.testing.assert_array_equal(stored.data[filled], A.data)
    np.testing.assert_array_equal(stored.in_hubs[filled], np.isin(A.indices, stored.hubs))
    assert not stored.data[~filled].any()
    rows = np.repeat(stored.rows, stored.entries_per_lane)[filled]
    np.testing.assert_array_equal(rows, np.repeat(np.arange(A.shape[0]), lengths))
    assert stored.heads.sum() == np.count_nonzero(lengths)
    np.testing.assert_array_equal(stored.rows[stored.heads], np.flatnonzero(lengths))


def test_the_matrix_of_koza():
    stored = HubCSR.from_csr(koza_2_1(), hubs=2, entries_per_lane=2)
    check_arrays(stored, koza_2_1(), 2)
    assert (stored.nnz, stored.places) == (10, 128)
    assert stored.nbytes == 2 * 4 + 64 * 4 + 128 * (4 + 8)


@given(
    A=csr_matrices(max_rows=40, dtypes=DTYPES, allow_nonfinite=True),
    hubs=st.integers(0, 12),
    entries=SMALL,
)
def test_arrays_and_round_trip(A, hubs, entries):
    stored = HubCSR.from_csr(A, hubs=hubs, entries_per_lane=entries)
    assert stored.entries_per_lane == entries
    check_arrays(stored, A, hubs)
    assert_round_trip(stored, A)


@pytest.mark.parametrize("name", battery(np.float32))
@pytest.mark.parametrize(("hubs", "entries"), [(0, 4), (5, 1), (24575, 2)])
def test_the_battery(name, hubs, entries):
    A = battery(np.float32)[name]
    stored = HubCSR.from_csr(A, hubs=hubs, entries_per_lane=entries)
    check_arrays(stored, A, hubs)
    assert_round_trip(stored, A)


def test_equally_frequent_columns_are_hubs_from_the_left():
    A = scipy.sparse.csr_array(np.ones((3, 6)))
    assert HubCSR.from_csr(A, hubs=4).hubs.tolist() == [0, 1, 2, 3]


def test_columns_with_one_entry_are_no_hubs():
    assert HubCSR.from_csr(scipy.sparse.csr_array(np.eye(4))).hubs.size == 0


@given(A=csr_matrices(max_rows=80, dtypes=DTYPES), entries=SMALL)
def test_products(A, entries):
    assert_spmv(A, KERNEL, hub_kb=1, entries_per_lane=entries)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_hubs_and_other_columns(dtype):
    rng = np.random.default_rng(1)
    indices = np.minimum(rng.zipf(1.3, 30_000), 2_000) - 1
    indptr = np.append(0, np.sort(rng.integers(0, 30_000, 300)))
    indices = indices[: indptr[-1]]
    A = scipy.sparse.csr_array((rng.uniform(-1, 1, len(indices)).astype(dtype), indices, indptr), shape=(300, 2_000))
    assert 0.3 < HubCSR.from_csr(A, hubs=127).in_hubs.sum() / A.nnz < 0.95  # 1 KB of float64
    assert_spmv(A, KERNEL, hub_kb=1)


def test_rows_longer_than_what_a_thread_takes():
    lengths = [3, 90_000, 2, 0, 13_000]
    indices = np.concatenate([np.arange(length) for length in lengths])
    values = np.random.default_rng(0).uniform(-1, 1, len(indices))
    A = scipy.sparse.csr_array((values, indices, np.cumsum([0, *lengths])), shape=(5, 90_000))
    for entries in (1, 4):
        assert_spmv(A, KERNEL, hub_kb=16, entries_per_lane=entries)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_padding_does_not_meet_x(special):
    A = scipy.sparse.csr_array(np.array([[1.0, 0, 0], [1, 0, 0], [0, 0, 3], [0, 0, 0]]))
    assert HubCSR.from_csr(A).hubs.tolist() == [0]
    assert spmv(A, KERNEL, [special, special, 1])[2:].tolist() == [3, 0]


def scattered(columns, nnz):
    """Nonzeros all over a matrix: `columns` of them are as frequent as each other."""
    rng = np.random.default_rng(0)
    return scipy.sparse.csr_array(
        (np.ones(nnz, np.float32), np.sort(rng.integers(0, columns, nnz)), np.array([0, nnz])), shape=(1, columns)
    )


def test_few_nonzeros_in_hubs_are_refused():
    with pytest.raises(ParameterError, match="less than a fifth of its nonzeros"):
        spmv(scattered(1_000_000, 2_000_000), KERNEL, np.ones(1_000_000, np.float32), hub_kb=192)
    y = spmv(scattered(60_000, 2_000_000), KERNEL, np.ones(60_000, np.float32), hub_kb=192)
    assert y.tolist() == [2_000_000]


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [("entries_per_lane", 3, "must be 1, 2 or 4, got 3"), ("hubs", -1, "must be at least 0 and less than .*, got -1")],
)
def test_bad_parameters(argument, value, message):
    with pytest.raises(ParameterError, match=f"{argument} {message}") as caught:
        HubCSR.from_csr(koza_2_1(), **{argument: value})
    assert caught.value.argument == argument
