"""Padded CSR: the format and its product on the CPU."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from battery import battery
from round_trips import DTYPES, assert_round_trip, assert_spmv, koza_2_1, spmv
from strategies import csr_matrices
from warploom.errors import ParameterError
from warploom.formats import PaddedCSR


def reference(A):
    """Return columns and values, filled row by row."""
    width = -(-max(np.diff(A.indptr), default=0) // 4) * 4
    columns = np.full((A.shape[0], width), -1)
    values = np.zeros((A.shape[0], width), dtype=A.dtype)
    for i, (begin, end) in enumerate(zip(A.indptr, A.indptr[1:], strict=False)):
        columns[i, : end - begin] = A.indices[begin:end]
        values[i, : end - begin] = A.data[begin:end]
    return columns, values


def test_the_matrix_of_koza():
    stored = PaddedCSR.from_csr(koza_2_1())
    assert (stored.width, stored.nnz, stored.places) == (4, 10, 20)
    assert stored.indices[3].tolist() == [2, 3, 4, -1]
    assert stored.data[3].tolist() == [7, 8, 9, 0]
    assert stored.padding_ratio == 1
    assert stored.nbytes == 20 * (4 + 8)
    assert_round_trip(stored, koza_2_1())


@given(A=csr_matrices(dtypes=DTYPES, allow_nonfinite=True))
def test_arrays_and_round_trip(A):
    stored = PaddedCSR.from_csr(A)
    columns, values = reference(A)
    assert stored.width == columns.shape[1]
    assert stored.places == columns.size
    np.testing.assert_array_equal(stored.indices, columns)
    np.testing.assert_array_equal(stored.data, values)
    assert_round_trip(stored, A)


def test_many_rows():
    A = scipy.sparse.csr_array(scipy.sparse.random_array((20_000, 500), density=0.01, rng=1, format="csr"))
    assert_round_trip(PaddedCSR.from_csr(A), A)


@given(A=csr_matrices(max_rows=80, dtypes=DTYPES), threads=st.sampled_from([1, 2, 4, 32]))
def test_products(A, threads):
    assert_spmv(A, "padded-csr/vector", threads_per_row=threads)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_padding_does_not_meet_x(special):
    A = scipy.sparse.csr_array(np.array([[0, 1.0, 2.0], [0, 0, 3.0], [0, 0, 0]]))
    assert spmv(A, "padded-csr/vector", [special, 1, 1]).tolist() == [3, 3, 0]


@pytest.mark.parametrize(
    ("max_width", "message"),
    [(2, "a row has 3 entries, more than max_width = 2"), (-1, "must not be negative, got -1")],
)
def test_bad_width(max_width, message):
    with pytest.raises(ParameterError, match=message) as caught:
        PaddedCSR.from_csr(koza_2_1(), max_width=max_width)
    assert caught.value.argument == "max_width"
    assert PaddedCSR.from_csr(koza_2_1(), max_width=3).width == 4


def test_padding_beyond_reason():
    A = battery(np.float64)["arrow"]
    with pytest.raises(ParameterError, match="90000 places for 898 nonzeros; max_width = 300 allows it") as caught:
        PaddedCSR.from_csr(A)
    assert caught.value.argument == "max_width"
    assert_round_trip(PaddedCSR.from_csr(A, max_width=300), A)
