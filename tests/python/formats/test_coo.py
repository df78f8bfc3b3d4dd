"""COO: the format and its product on the CPU."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given

from battery import battery
from round_trips import DTYPES, assert_round_trip, assert_spmv, koza_2_1
from strategies import csr_matrices
from warploom.formats import COO


def test_the_example_of_the_paper():
    stored = COO.from_csr(koza_2_1())
    assert stored.data.tolist() == list(range(1, 11))
    assert stored.indices.tolist() == [0, 3, 1, 4, 2, 4, 2, 3, 4, 4]
    assert stored.row_indices.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 3, 4]
    assert stored.padding_ratio == 0
    assert stored.nbytes == 10 * (4 + 4 + 8)
    assert_round_trip(stored, koza_2_1())


@given(A=csr_matrices(dtypes=DTYPES, allow_nonfinite=True))
def test_arrays_and_round_trip(A):
    stored = COO.from_csr(A)
    rows = [row for row in range(A.shape[0]) for _ in range(A.indptr[row], A.indptr[row + 1])]
    np.testing.assert_array_equal(stored.row_indices, rows)
    np.testing.assert_array_equal(stored.indices, A.indices)
    np.testing.assert_array_equal(stored.data, A.data)
    assert not stored.row_indices.flags.writeable
    assert_round_trip(stored, A)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", battery(np.float32))
def test_round_trip_of_the_battery(name, dtype):
    A = battery(dtype)[name]
    assert_round_trip(COO.from_csr(A), A)


def test_many_entries_between_empty_rows():
    A = scipy.sparse.csr_array(scipy.sparse.random_array((30_000, 500), density=0.01, rng=1, format="csr"))
    A = scipy.sparse.vstack([scipy.sparse.csr_array((9_000, 500)), A, scipy.sparse.csr_array((9_000, 500))], "csr")
    assert_round_trip(COO.from_csr(A), A)
    assert_spmv(A, "coo/segmented_sum")


@given(A=csr_matrices(max_rows=80, dtypes=DTYPES))
def test_products(A):
    assert_spmv(A, "coo/segmented_sum")
