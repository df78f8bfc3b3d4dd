"""BSR: the format and its product on the CPU."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from battery import battery
from round_trips import DTYPES, assert_round_trip, assert_spmv, koza_2_1, spmv
from strategies import csr_matrices
from warploom.errors import ParameterError
from warploom.formats import BSR


def canonical(A):
    """Sort the columns of every row and add up repeated entries; stored zeros stay."""
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    entries = {}
    for row, column, value in zip(rows.tolist(), A.indices.tolist(), A.data, strict=True):
        key = row, column
        entries[key] = value if key not in entries else np.add(entries[key], value, dtype=A.dtype)
    keys = sorted(entries)
    indptr = np.searchsorted([row for row, _ in keys], np.arange(A.shape[0] + 1))
    data = np.array([entries[key] for key in keys], dtype=A.dtype)
    return scipy.sparse.csr_array((data, np.array([c for _, c in keys], dtype=int), indptr), shape=A.shape)


def reference(A, size):
    """Return indptr, block columns and blocks, cut out of the matrix with its edges padded."""
    block_rows, block_columns = (-(-extent // size) for extent in A.shape)
    dense = np.zeros((block_rows * size, block_columns * size), dtype=A.dtype)
    stored = np.zeros(dense.shape, dtype=bool)
    for row in range(A.shape[0]):
        for j in range(A.indptr[row], A.indptr[row + 1]):
            dense[row, A.indices[j]] = A.data[j]
            stored[row, A.indices[j]] = True
    indptr, columns, blocks = [0], [], []
    for i in range(block_rows):
        for j in range(block_columns):
            part = np.s_[i * size : (i + 1) * size, j * size : (j + 1) * size]
            if stored[part].any():
                columns.append(j)
                blocks.append(dense[part])
        indptr.append(len(columns))
    return indptr, columns, blocks


def test_the_matrix_of_the_paper_in_blocks_of_two():
    stored = BSR.from_csr(koza_2_1(), block_size=2)
    assert stored.indptr.tolist() == [0, 3, 5, 6]
    assert stored.indices.tolist() == [0, 1, 2, 1, 2, 2]
    assert stored.data.tolist() == [
        [[1, 0], [0, 3]],
        [[0, 2], [0, 0]],
        [[0, 0], [4, 0]],
        [[5, 0], [7, 8]],
        [[6, 0], [9, 0]],
        [[10, 0], [0, 0]],
    ]
    assert (stored.nnz, stored.places) == (10, 24)
    assert stored.padding_ratio == pytest.approx(1.4)
    assert_round_trip(stored, koza_2_1())


@given(A=csr_matrices(max_rows=20, max_cols=20, dtypes=DTYPES, allow_nonfinite=True), size=st.sampled_from([2, 4, 8]))
def test_arrays_and_round_trip(A, size):
    with np.errstate(all="ignore"):
        merged = canonical(A)
    stored = BSR.from_csr(A, block_size=size)
    indptr, columns, blocks = reference(merged, size)
    assert stored.block_size == size
    np.testing.assert_array_equal(stored.indptr, indptr)
    np.testing.assert_array_equal(stored.indices, columns)
    assert stored.data.shape == (len(blocks), size, size)
    np.testing.assert_array_equal(stored.data, np.array(blocks).reshape(-1, size, size))
    assert stored.places == len(blocks) * size * size
    assert_round_trip(stored, merged)


@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", battery(np.float32))
def test_round_trip_of_the_battery(name, dtype, size):
    A = battery(dtype)[name]
    assert_round_trip(BSR.from_csr(A, block_size=size), canonical(A))


def test_agrees_with_scipy():
    blocks = scipy.sparse.random_array((40, 30), density=0.1, rng=1)
    A = scipy.sparse.csr_array(scipy.sparse.kron(blocks, np.arange(1.0, 17).reshape(4, 4)))
    theirs = A.tobsr((4, 4))
    theirs.sort_indices()
    ours = BSR.from_csr(A, block_size=4)
    np.testing.assert_array_equal(ours.indptr, theirs.indptr)
    np.testing.assert_array_equal(ours.indices, theirs.indices)
    np.testing.assert_array_equal(ours.data, theirs.data)
    assert ours.padding_ratio == 0


@given(A=csr_matrices(max_rows=40, max_cols=40, dtypes=DTYPES), size=st.sampled_from([2, 4, 8]))
def test_products(A, size):
    if A.dtype == np.float16:
        A = canonical(A)
    assert_spmv(A, "bsr/vector", block_size=size)


@pytest.mark.parametrize("columns", [[0, 1, 1], [2, 0, 2]])
def test_repeated_entries_of_float16_are_refused(columns):
    # In float16 1 + 2^-11 is 1: added up first, the small entries would be lost.
    values = np.array([2.0**-11, 1, 1], dtype=np.float32)
    A = scipy.sparse.csr_array((values, columns, [0, 3, 3]), shape=(2, 3))
    assert_spmv(A, "bsr/vector")
    A.data = A.data.astype(np.float16)
    with pytest.raises(ParameterError, match="would add repeated entries"):
        assert_spmv(A, "bsr/vector")


def test_filled_in_zeros_are_multiplied_but_nothing_past_the_edge():
    A = scipy.sparse.csr_array(np.array([[1.0, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 1]]))
    y = spmv(A, "bsr/vector", [np.nan, 1, 1, 1, 1], block_size=2)
    np.testing.assert_array_equal(y, [np.nan, np.nan, 1, 1])


@pytest.mark.parametrize("size", [0, 1, 3, 16, -2])
def test_bad_block_size(size):
    with pytest.raises(ParameterError, match=f"block_size must be 2, 4 or 8, got {size}") as caught:
        BSR.from_csr(koza_2_1(), block_size=size)
    assert caught.value.argument == "block_size"


def test_padding_beyond_reason_is_refused():
    A = scipy.sparse.csr_array(scipy.sparse.eye_array(1600, format="csr")[::2])
    with pytest.raises(ParameterError, match="would store 12800 entries for 800 nonzeros"):
        spmv(A, "bsr/vector", np.ones(1600), block_size=8)
