"""Packed CSR: the format and its product on the CPU."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from battery import battery
from round_trips import DTYPES, assert_round_trip, assert_spmv, koza_2_1, spmv
from strategies import csr_matrices
from warploom.errors import ParameterError
from warploom.formats import PackedCSR

SMALL = st.sampled_from([1, 2, 4])


def check_lanes(stored, A):
    """Check that the lanes of a row hold its entries in their order, and that only long rows are cut, by warps."""
    per_warp = 32 * stored.steps
    lengths = np.diff(A.indptr)
    assert len(stored.lanes) % per_warp == 0
    assert stored.places == len(stored.lanes) * stored.entries_per_lane
    np.testing.assert_array_equal(stored.empty_rows, np.flatnonzero(lengths == 0))
    indices = stored.indices.reshape(-1, stored.entries_per_lane)
    data = stored.data.reshape(-1, stored.entries_per_lane)
    for row, length in enumerate(lengths.tolist()):
        lanes = np.flatnonzero(stored.rows == row)
        assert len(lanes) == -(-length // stored.entries_per_lane)
        filled = indices[lanes] >= 0
        np.testing.assert_array_equal(indices[lanes][filled], A.indices[A.indptr[row] : A.indptr[row + 1]])
        np.testing.assert_array_equal(data[lanes][filled], A.data[A.indptr[row] : A.indptr[row + 1]])
        pieces = -(-len(lanes) // per_warp)
        assert stored.heads[lanes].sum() == pieces
        assert (stored.pieces[:, 0] == row).sum() == (pieces if pieces > 1 else 0)
        np.testing.assert_array_equal(np.diff(lanes), 1)
        if pieces > 1:
            assert lanes[0] % per_warp == 0
        elif pieces:
            assert lanes[0] // per_warp == lanes[-1] // per_warp
    assert not stored.data.reshape(-1)[stored.indices.reshape(-1) < 0].any()


def test_the_matrix_of_koza():
    stored = PackedCSR.from_csr(koza_2_1(), entries_per_lane=2)
    assert stored.rows[:7].tolist() == [0, 1, 2, 3, 3, 4, -1]
    assert stored.heads[:7].tolist() == [True, True, True, True, False, True, False]
    assert stored.indices[:12].tolist() == [0, 3, 1, 4, 2, 4, 2, 3, 4, -1, 4, -1]
    assert stored.data[:12].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 10, 0]
    assert (stored.nnz, stored.places, stored.padding_ratio) == (10, 64, 5.4)
    assert stored.nbytes == 32 * 4 + 64 * (4 + 8)
    assert (len(stored.pieces), len(stored.empty_rows)) == (0, 0)


@given(A=csr_matrices(max_rows=40, dtypes=DTYPES, allow_nonfinite=True), entries=SMALL, steps=SMALL)
def test_arrays_and_round_trip(A, entries, steps):
    stored = PackedCSR.from_csr(A, entries_per_lane=entries, steps=steps)
    assert (stored.entries_per_lane, stored.steps) == (entries, steps)
    check_lanes(stored, A)
    assert_round_trip(stored, A)


@pytest.mark.parametrize("name", battery(np.float32))
@pytest.mark.parametrize(("entries", "steps"), [(1, 1), (4, 1), (2, 4)])
def test_the_battery(name, entries, steps):
    A = battery(np.float32)[name]
    stored = PackedCSR.from_csr(A, entries_per_lane=entries, steps=steps)
    check_lanes(stored, A)
    assert_round_trip(stored, A)


def test_rows_of_several_blocks():
    lengths = [3, 9000, 200, 0, 130]
    indices = np.concatenate([np.arange(length) for length in lengths])
    A = scipy.sparse.csr_array((np.arange(9333.0) + 1, indices, np.cumsum([0, *lengths])), shape=(5, 9000))
    stored = PackedCSR.from_csr(A)  # 128 entries a warp, 1,024 a block
    check_lanes(stored, A)
    assert stored.pieces[:71, 2].tolist() == [9] * 71
    assert_round_trip(stored, A)
    assert_spmv(A, "packed-csr/segmented_sum")


@given(A=csr_matrices(max_rows=80, dtypes=DTYPES), entries=SMALL, steps=SMALL)
def test_products(A, entries, steps):
    assert_spmv(A, "packed-csr/segmented_sum", entries_per_lane=entries, steps=steps)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_padding_does_not_meet_x(special):
    A = scipy.sparse.csr_array(np.array([[0, 1.0, 2.0], [0, 0, 3.0], [0, 0, 0]]))
    assert spmv(A, "packed-csr/segmented_sum", [special, 1, 1]).tolist() == [3, 3, 0]


@pytest.mark.parametrize("argument", ["entries_per_lane", "steps"])
@pytest.mark.parametrize("value", [0, 3, -1, 8])
def test_bad_parameters(argument, value):
    with pytest.raises(ParameterError, match=f"{argument} must be 1, 2 or 4, got {value}") as caught:
        PackedCSR.from_csr(koza_2_1(), **{argument: value})
    assert caught.value.argument == argument
