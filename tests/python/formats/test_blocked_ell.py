"""Blocked ELL: the format. Only the vendor's library multiplies with it, on a GPU."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from battery import battery
from round_trips import DTYPES, assert_round_trip
from strategies import csr_matrices
from warploom.errors import ParameterError
from warploom.formats import BlockedELL


@given(A=csr_matrices(max_rows=70, dtypes=DTYPES), size=st.sampled_from([8, 16, 32]))
def test_arrays(A, size):
    stored = BlockedELL.from_csr(A, block_size=size)
    longest = 0
    for block_row, columns in enumerate(stored.indices):
        begin, end = A.indptr[size * block_row], A.indptr[min(size * (block_row + 1), A.shape[0])]
        expected = sorted(set((A.indices[begin:end] // size).tolist()))
        assert columns[: len(expected)].tolist() == expected
        assert (columns[len(expected) :] == -1).all()
        longest = max(longest, len(expected))
    assert stored.width == longest
    rows = -(-A.shape[0] // size) * size
    dense = np.zeros((rows, -(-A.shape[1] // size) * size + size))
    for block_row in range(rows // size):
        for i, column in enumerate(stored.indices[block_row].tolist()):
            if column >= 0:
                block = stored.data[size * block_row : size * (block_row + 1), size * i : size * (i + 1)]
                dense[size * block_row : size * (block_row + 1), size * column : size * (column + 1)] = block
    where = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr)), A.indices
    times = np.zeros(dense.shape, int)
    np.add.at(times, where, 1)
    expected = np.zeros(dense.shape)
    expected[where] = A.data
    np.testing.assert_array_equal(dense[times < 2], expected[times < 2])  # repeated entries are added up


@pytest.mark.parametrize("name", ["random", "explicit zeros", "empty rows", "dense"])
def test_round_trip_of_the_battery(name):
    A = battery(np.float32)[name]
    A.sort_indices()
    for size in (8, 16, 32):
        assert_round_trip(BlockedELL.from_csr(A, block_size=size), A)


def test_block_sizes_are_checked():
    for wrong in (4, 12, 64):
        with pytest.raises(ParameterError, match="must be 8, 16 or 32"):
            BlockedELL.from_csr(csr_array(np.eye(3)), block_size=wrong)
