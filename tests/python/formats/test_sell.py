"""Sliced ELL with sorted windows (SELL-C-sigma): the format and its product on the CPU."""

import itertools

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from battery import battery
from round_trips import DTYPES, assert_round_trip, assert_spmv, koza_2_1, spmv
from strategies import csr_matrices
from warploom.errors import ParameterError
from warploom.formats import SELL

BATTERY = [(name, dtype) for name in battery(np.float32) for dtype in DTYPES]


def reference(A, height, window):
    """Return row_ids, slice_ptr, columns and values, filled slice by slice as the definition says."""
    lengths = np.diff(A.indptr)
    order = []
    for first in range(0, A.shape[0], window):
        order += sorted(range(first, min(first + window, A.shape[0])), key=lambda row: -lengths[row])
    slice_ptr, columns, values = [0], [], []
    for first in range(0, A.shape[0], height):
        rows = order[first : first + height]
        width = max(lengths[row] for row in rows)
        for j, r in itertools.product(range(width), range(height)):
            stored = r < len(rows) and j < lengths[rows[r]]
            columns.append(A.indices[A.indptr[rows[r]] + j] if stored else -1)
            values.append(A.data[A.indptr[rows[r]] + j] if stored else 0)
        slice_ptr.append(len(columns))
    return order, slice_ptr, columns, values


def test_slices_of_the_paper_matrix():
    stored = SELL.from_csr(koza_2_1(), slice_height=2)
    assert stored.slice_ptr.tolist() == [0, 4, 10, 12]
    assert stored.indices.tolist() == [0, 1, 3, 4, 2, 2, 4, 3, -1, 4, 4, -1]
    assert stored.data.tolist() == [1, 3, 2, 4, 5, 7, 6, 8, 0, 9, 10, 0]
    assert stored.row_ids.tolist() == []
    assert (stored.nnz, stored.places) == (10, 12)
    assert stored.padding_ratio == pytest.approx(0.2)
    assert stored.nbytes == 4 * 8 + 12 * (4 + 8)


def test_sorting_the_paper_matrix():
    stored = SELL.from_csr(koza_2_1(), slice_height=2, sort_window=5)
    assert stored.row_ids.tolist() == [3, 0, 1, 2, 4]
    assert stored.slice_ptr.tolist() == [0, 6, 10, 12]
    assert stored.indices.tolist() == [2, 0, 3, 3, 4, -1, 1, 2, 4, 4, 4, -1]
    assert_round_trip(stored, koza_2_1())


@given(A=csr_matrices(dtypes=DTYPES, allow_nonfinite=True), height=st.integers(1, 20), window=st.integers(1, 20))
def test_arrays_and_round_trip(A, height, window):
    stored = SELL.from_csr(A, slice_height=height, sort_window=window)
    order, slice_ptr, columns, values = reference(A, height, window)
    assert (stored.slice_height, stored.sort_window) == (height, window)
    assert stored.row_ids.tolist() == (order if window > 1 else [])
    np.testing.assert_array_equal(stored.slice_ptr, slice_ptr)
    np.testing.assert_array_equal(stored.indices, columns)
    np.testing.assert_array_equal(stored.data, np.array(values, dtype=A.dtype))
    assert stored.data.dtype == A.dtype
    assert stored.padding_ratio == ((len(columns) - A.nnz) / A.nnz if A.nnz else 0)
    assert_round_trip(stored, A)


@pytest.mark.parametrize(("name", "dtype"), BATTERY)
@pytest.mark.parametrize(("height", "window"), [(32, 1), (4, 64), (7, 10**12)])
def test_round_trip_of_the_battery(name, dtype, height, window):
    A = battery(dtype)[name]
    assert_round_trip(SELL.from_csr(A, slice_height=height, sort_window=window), A)


def test_many_slices():
    A = scipy.sparse.csr_array(scipy.sparse.random_array((20_000, 500), density=0.01, rng=1, format="csr"))
    assert_round_trip(SELL.from_csr(A, slice_height=8, sort_window=256), A)
    assert_spmv(A, "sell/vector", threads_per_row=4, sort_window=256)


@pytest.mark.parametrize("argument", ["slice_height", "sort_window"])
@pytest.mark.parametrize("value", [0, -3])
def test_bad_parameters(argument, value):
    with pytest.raises(ParameterError, match=f"{argument} must be at least 1, got {value}") as caught:
        SELL.from_csr(koza_2_1(), **{argument: value})
    assert caught.value.argument == argument


@given(
    A=csr_matrices(max_rows=80, dtypes=DTYPES),
    threads=st.sampled_from([1, 2, 4, 8, 16]),
    window=st.sampled_from([1, 256, 4096, 65536]),
)
def test_products(A, threads, window):
    assert_spmv(A, "sell/vector", threads_per_row=threads, sort_window=window)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_padding_does_not_meet_x(special):
    A = scipy.sparse.csr_array(np.array([[0, 1.0, 2.0], [0, 0, 3.0]]))
    x = np.array([special, 1.0, 1.0])
    assert spmv(A, "sell/vector", x).tolist() == [3.0, 3.0]


def test_padding_beyond_reason_is_refused():
    lengths = np.where(np.arange(1024) % 32 == 0, 1000, 1)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.concatenate([np.arange(length) for length in lengths])
    A = scipy.sparse.csr_array((np.ones(len(indices)), indices, indptr), shape=(1024, 1000))
    with pytest.raises(ParameterError, match="would store 1024000 entries for 32992 nonzeros"):
        assert_spmv(A, "sell/vector")
    assert_spmv(A, "sell/vector", sort_window=4096)
