"""DCSR: the format. Its products on the CPU are tested with those of all kernels."""

import numpy as np
from hypothesis import given

from round_trips import mehrabi_1
from strategies import csr_matrices
from warploom.formats import DCSR


def test_the_example_of_the_paper():
    stored = DCSR.from_csr(mehrabi_1())
    assert stored.indptr.tolist() == [0, 2, 3]
    assert stored.row_ids.tolist() == [0, 3]
    assert stored.indices.tolist() == [1, 3, 0]
    assert stored.data.tolist() == [1, 2, 3]
    assert stored.nbytes == 3 * 8 + 2 * 4 + 3 * 4 + 3 * 8


@given(csr_matrices())
def test_it_has_the_rows_with_entries(A):
    stored = DCSR.from_csr(A)
    lengths = np.diff(A.indptr)
    np.testing.assert_array_equal(stored.row_ids, np.flatnonzero(lengths))
    np.testing.assert_array_equal(np.diff(stored.indptr), lengths[lengths > 0])
    assert len(stored.indptr) == len(stored.row_ids) + 1
