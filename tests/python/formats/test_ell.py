"""ELL: the format and its product on the CPU."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from battery import battery
from round_trips import DTYPES, assert_round_trip, assert_spmv, koza_2_1, spmv
from strategies import csr_matrices
from warploom.errors import ParameterError
from warploom.formats import ELL


def reference(A):
    """Return ColInd and Val, filled row by row as Koza et al. 2014, Sec. 2.3, say."""
    width = max(np.diff(A.indptr), default=0)
    columns = np.full((A.shape[0], width), -1)
    values = np.zeros((A.shape[0], width), dtype=A.dtype)
    for i in range(A.shape[0]):
        for j, place in enumerate(range(A.indptr[i], A.indptr[i + 1])):
            columns[i, j] = A.indices[place]
            values[i, j] = A.data[place]
    return columns, values


def test_the_example_of_the_paper():
    stored = ELL.from_csr(koza_2_1())
    assert stored.data.tolist() == [[1, 2, 0], [3, 4, 0], [5, 6, 0], [7, 8, 9], [10, 0, 0]]
    assert stored.indices.tolist() == [[0, 3, -1], [1, 4, -1], [2, 4, -1], [2, 3, 4], [4, -1, -1]]
    assert (stored.width, stored.nnz, stored.places) == (3, 10, 15)
    assert stored.padding_ratio == 0.5
    assert stored.nbytes == 15 * (4 + 8)
    assert_round_trip(stored, koza_2_1())


@given(A=csr_matrices(dtypes=DTYPES, allow_nonfinite=True))
def test_arrays_and_round_trip(A):
    stored = ELL.from_csr(A)
    columns, values = reference(A)
    assert stored.width == columns.shape[1]
    assert stored.places == columns.size
    np.testing.assert_array_equal(stored.indices, columns)
    np.testing.assert_array_equal(stored.data, values)
    assert stored.indices.flags.f_contiguous
    assert not stored.data.flags.writeable
    assert_round_trip(stored, A)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", battery(np.float32))
def test_round_trip_of_the_battery(name, dtype):
    A = battery(dtype)[name]
    assert_round_trip(ELL.from_csr(A, max_width=2000), A)


def test_many_rows():
    A = scipy.sparse.csr_array(scipy.sparse.random_array((20_000, 500), density=0.01, rng=1, format="csr"))
    assert_round_trip(ELL.from_csr(A), A)
    assert_spmv(A, "ell/vector")


@given(A=csr_matrices(max_rows=80, dtypes=DTYPES), threads=st.sampled_from([1, 2, 4, 8]))
def test_products(A, threads):
    assert_spmv(A, "ell/vector", threads_per_row=threads)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_padding_does_not_meet_x(special):
    A = scipy.sparse.csr_array(np.array([[0, 1.0, 2.0], [0, 0, 3.0], [0, 0, 0]]))
    assert spmv(A, "ell/vector", [special, 1, 1]).tolist() == [3, 3, 0]


@pytest.mark.parametrize(
    ("max_width", "message"),
    [(2, "a row has 3 entries, more than max_width = 2"), (-1, "must not be negative, got -1")],
)
def test_bad_width(max_width, message):
    with pytest.raises(ParameterError, match=message) as caught:
        ELL.from_csr(koza_2_1(), max_width=max_width)
    assert caught.value.argument == "max_width"
    assert ELL.from_csr(koza_2_1(), max_width=3).width == 3


def test_padding_beyond_reason():
    A = battery(np.float64)["arrow"]
    with pytest.raises(ParameterError, match="90000 places for 898 nonzeros; max_width = 300 allows it") as caught:
        ELL.from_csr(A)
    assert caught.value.argument == "max_width"
    with pytest.raises(ParameterError, match="90000 entries for 898 nonzeros"):
        spmv(A, "ell/vector", np.ones(300))
    assert ELL.from_csr(A, max_width=300).places == 90_000
