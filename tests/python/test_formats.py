from __future__ import annotations

import gc

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given

import warploom._core as core
from battery import battery
from round_trips import DTYPES
from strategies import csr_matrices
from warploom import formats
from warploom.errors import DtypeError, InvalidMatrixError

ROWS = [formats.CSR, formats.DCSR]  # entries row after row, in the order of the caller
ALL = [
    *ROWS,
    formats.COO,
    formats.ELL,
    formats.HYB,
    formats.BSR,
    formats.SELL,
    formats.CompressedSELL,
    formats.CMRS,
    formats.DASP,
    formats.ColumnPanels,
]


def fig_1(dtype=np.float64):
    """Return the matrix of Mehrabi et al. 2021, Fig. 1, with a01 = 1, a03 = 2, a30 = 3."""
    return scipy.sparse.csr_array(np.array([[0, 1, 0, 2], [0] * 4, [0] * 4, [3, 0, 0, 0]], dtype=dtype))


def assert_same_arrays(found, expected):
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.indptr, expected.indptr)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.data, expected.data)  # NaN equals NaN here


def entries(data, indices, indptr):
    """(row, column, bits of the value) of every entry, sorted: the entries of a row in whatever order."""
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)).tolist()
    return sorted(zip(rows, indices.tolist(), map(bytes, data[:, None]), strict=True))


def added_up(A):
    """`A` with repeated entries added up in their order, in its own value type."""
    sums = {}
    for row, (start, end) in enumerate(zip(A.indptr, A.indptr[1:], strict=False)):
        for column, value in zip(A.indices[start:end].tolist(), A.data[start:end], strict=True):
            sums[row, column] = sums[row, column] + value if (row, column) in sums else value
    return [(row, column, value.tobytes()) for (row, column), value in sorted(sums.items(), key=lambda item: item[0])]


def test_names_are_those_of_the_classes():
    assert formats.names() == tuple(known.name for known in ALL)
    classes = [getattr(formats, name) for name in formats.__all__ if name not in ("Format", "names")]
    assert set(classes) == set(ALL)


def test_csr_of_fig_1():
    stored = formats.CSR.from_csr(fig_1())
    assert stored.indptr.tolist() == [0, 2, 2, 2, 3]
    assert stored.indices.tolist() == [1, 3, 0]
    assert stored.data.tolist() == [1, 2, 3]
    assert stored.nbytes == 5 * 8 + 3 * 4 + 3 * 8


def test_dcsr_of_fig_1():
    stored = formats.DCSR.from_csr(fig_1())
    assert stored.indptr.tolist() == [0, 2, 3]
    assert stored.row_ids.tolist() == [0, 3]
    assert stored.indices.tolist() == [1, 3, 0]
    assert stored.data.tolist() == [1, 2, 3]
    assert stored.nbytes == 3 * 8 + 2 * 4 + 3 * 4 + 3 * 8


@pytest.mark.parametrize("cls", ROWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_of_rows(cls, dtype):
    stored = cls.from_csr(fig_1(dtype))
    assert stored.data.dtype == dtype
    assert stored.indptr.dtype == np.int64
    assert stored.indices.dtype == np.int32
    assert stored.padding_ratio == 0


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_face(cls, dtype):
    stored = cls.from_csr(fig_1(dtype))
    assert stored.shape == (4, 4)
    assert (stored.num_rows, stored.num_cols, stored.nnz) == (4, 4, 3)
    assert stored.dtype == dtype
    assert repr(stored) == (f"<{cls.__name__} 4x4 {np.dtype(dtype).name}, 3 nonzeros, {stored.nbytes} bytes>")


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("name", battery(np.float32))
@pytest.mark.parametrize("dtype", DTYPES)
def test_battery_survives_up_to_the_order_within_a_row(cls, name, dtype):
    A = battery(dtype)[name]
    # One long row is too much padding for ELL unless it is asked for.
    stored = cls.from_csr(A, max_width=2000) if cls is formats.ELL else cls.from_csr(A)
    expected = added_up(A) if cls is formats.BSR else entries(A.data, A.indices, A.indptr)
    # SciPy makes no float16 matrix of arrays.
    assert entries(*stored._core.to_csr()) == expected
    assert (stored.shape, stored.dtype, stored.nnz) == (A.shape, A.dtype, len(expected))
    assert stored.padding_ratio >= 0
    if expected:
        assert stored.nbytes >= len(expected) * A.dtype.itemsize


@pytest.mark.parametrize("cls", ROWS)
@given(A=csr_matrices(allow_nonfinite=True))
def test_round_trip(cls, A):
    stored = cls.from_csr(A)
    assert_same_arrays(stored.to_csr(), A)
    assert stored.nnz == len(A.indices)
    assert stored.dtype == A.dtype


@given(csr_matrices())
def test_dcsr_has_the_rows_with_entries(A):
    stored = formats.DCSR.from_csr(A)
    lengths = np.diff(A.indptr)
    np.testing.assert_array_equal(stored.row_ids, np.flatnonzero(lengths))
    np.testing.assert_array_equal(np.diff(stored.indptr), lengths[lengths > 0])
    assert len(stored.indptr) == len(stored.row_ids) + 1


@pytest.mark.parametrize("cls", ROWS)
@given(A=csr_matrices())
def test_products_agree_with_scipy(cls, A):
    x = np.arange(1.0, A.shape[1] + 1).astype(A.dtype)
    np.testing.assert_array_equal(cls.from_csr(A).to_csr() @ x, A @ x)


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0), (5, 5)])
def test_no_nonzeros(cls, shape):
    stored = cls.from_csr(scipy.sparse.csr_array(shape, dtype=np.float32))
    assert stored.shape == stored.to_csr().shape == shape
    assert stored.nnz == stored.to_csr().nnz == 0
    assert stored.dtype == stored.to_csr().dtype == np.float32
    assert stored.padding_ratio == 0
    if cls in ROWS:
        assert stored.indptr[0] == stored.indptr[-1] == 0


@pytest.mark.parametrize("cls", ALL)
def test_other_sparse_formats_are_converted(cls):
    assert_same_arrays(cls.from_csr(fig_1().tocoo()).to_csr(), fig_1())
    assert_same_arrays(cls.from_csr(scipy.sparse.csr_matrix(fig_1())).to_csr(), fig_1())


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128, np.longdouble])
def test_other_value_types_are_refused(cls, dtype):
    A = scipy.sparse.csr_array((np.ones(1), [0], [0, 1]), shape=(1, 1))
    A.data = A.data.astype(dtype)
    with pytest.raises(DtypeError, match=np.dtype(dtype).name):
        cls.from_csr(A)


@pytest.mark.parametrize("cls", ALL)
def test_malformed_matrix_is_refused(cls):
    A = fig_1()
    A.indices[1] = 4
    with pytest.raises(InvalidMatrixError, match="outside"):
        cls.from_csr(A)


@pytest.mark.parametrize("cls", ALL)
def test_pattern_without_values_is_refused(cls):
    pattern = core.CsrView(np.array([0, 1]), np.array([0], dtype=np.int32), None, 1, 1)
    with pytest.raises(InvalidMatrixError, match="without values"):
        cls.from_csr(pattern)


@pytest.mark.parametrize("cls", ALL)
def test_trailing_capacity_is_left_behind(cls):
    view = core.CsrView(np.array([0, 1]), np.array([0, 9, 9], dtype=np.int32), np.array([5.0, 0, 0]), 1, 1)
    stored = cls.from_csr(view)
    assert stored.nnz == 1
    assert_same_arrays(stored.to_csr(), scipy.sparse.csr_array([[5.0]]))


@pytest.mark.parametrize("cls", ALL)
def test_memory_is_its_own(cls):
    A = fig_1()
    stored = cls.from_csr(A)
    A.data[:] = 0
    assert_same_arrays(stored.to_csr(), fig_1())
    stored.to_csr().data[:] = 0
    assert_same_arrays(stored.to_csr(), fig_1())


@pytest.mark.parametrize("cls", ROWS)
def test_arrays_are_read_only_and_outlive_the_matrix(cls):
    stored = cls.from_csr(fig_1())
    arrays = [stored.indptr, stored.indices, stored.data]
    assert not any(array.flags.writeable for array in arrays)
    del stored
    gc.collect()
    assert arrays[1].tolist() == [1, 3, 0]
    assert arrays[2].tolist() == [1, 2, 3]
