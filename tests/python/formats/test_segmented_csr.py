"""Segmented CSR: the format. Its products on the CPU are tested with those of all SpMM kernels."""

import gc

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from battery import battery
from round_trips import DTYPES, assert_round_trip, koza_2_1
from strategies import csr_matrices
from warploom.errors import ParameterError
from warploom.formats import SegmentedCSR


def reference(A, length):
    """Return segments and split rows in the order of the rows, for rows of at most 1,024 segments."""
    segments, split_rows, partials = [], [], 0
    for row, (begin, end) in enumerate(zip(A.indptr.tolist(), A.indptr.tolist()[1:], strict=False)):
        starts = range(begin, end, length) if end > begin else [begin]
        if len(starts) > 1:
            split_rows.append([row, partials, len(starts)])
        for start in starts:
            segments.append([row, start, min(length, end - start), partials if len(starts) > 1 else -1])
            partials += len(starts) > 1
    return segments, split_rows


def test_the_matrix_of_koza():
    stored = SegmentedCSR.from_csr(koza_2_1(), segment_length=2)
    assert stored.segments.tolist() == [
        [0, 0, 2, -1],
        [1, 2, 2, -1],
        [2, 4, 2, -1],
        [3, 6, 2, 0],
        [3, 8, 1, 1],
        [4, 9, 1, -1],
    ]
    assert stored.split_rows.tolist() == [[3, 0, 2]]
    assert stored.indices.tolist() == [0, 3, 1, 4, 2, 4, 2, 3, 4, 4]
    assert stored.data.tolist() == list(range(1, 11))
    assert stored.nbytes == 6 * 16 + 12 + 10 * (4 + 8)
    assert stored.padding_ratio == 0


@given(A=csr_matrices(dtypes=DTYPES, allow_nonfinite=True), length=st.integers(1, 30), longest_first=st.booleans())
def test_arrays_and_round_trip(A, length, longest_first):
    stored = SegmentedCSR.from_csr(A, segment_length=length, longest_first=longest_first)
    segments, split_rows = reference(A, length)
    if longest_first:
        segments.sort(key=lambda segment: -segment[2])
    assert (stored.segment_length, stored.longest_first) == (length, longest_first)
    assert stored.segments.tolist() == segments
    assert stored.split_rows.tolist() == split_rows
    assert_round_trip(stored, A)


@pytest.mark.parametrize("name", battery(np.float32))
@pytest.mark.parametrize("length", [1, 32])
def test_round_trip_of_the_battery(name, length):
    A = battery(np.float32)[name]
    assert_round_trip(SegmentedCSR.from_csr(A, segment_length=length), A)


def test_a_giant_row_has_longer_segments():
    A = scipy.sparse.csr_array(np.ones((1, 5000)))
    stored = SegmentedCSR.from_csr(A, segment_length=1)
    assert len(stored.segments) == 1000
    assert set(stored.segments[:, 2]) == {5}
    assert_round_trip(stored, A)


def test_entries_are_its_own():
    A = koza_2_1()
    stored = SegmentedCSR.from_csr(A)
    A.data[:] = 0
    data = stored.data
    del stored
    gc.collect()
    assert data.tolist() == list(range(1, 11))


@pytest.mark.parametrize("length", [0, -2])
def test_bad_length(length):
    with pytest.raises(ParameterError, match=f"segment_length must be at least 1, got {length}") as caught:
        SegmentedCSR.from_csr(koza_2_1(), segment_length=length)
    assert caught.value.argument == "segment_length"
