"""The boundary: legal matrices give the same as in SciPy, others raise an error that names the position."""

import warnings
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from warploom import _bfloat16, _core, errors
from warploom._matrix import as_csr, compressed

BEYOND = 2**32 + 3  # as a 32-bit integer this would be a harmless 3


def small(dtype=np.float64, index=np.int32):
    """A 4 x 5 matrix with 6 nonzeros, an empty row, unsorted and duplicate columns."""
    A = sp.csr_array((4, 5), dtype=dtype)
    A.indptr = np.array([0, 2, 2, 5, 6], index)
    A.indices = np.array([3, 0, 4, 1, 1, 2], index)
    A.data = np.arange(1, 7).astype(dtype)
    return A


def to_scipy(view):
    return sp.csr_array((view.data, view.indices, view.indptr), shape=view.shape)


def assert_same(view, expected):
    assert view.shape == expected.shape
    np.testing.assert_array_equal(to_scipy(view).toarray(), expected.toarray())


# ----- legal input -----


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_looks_at_the_arrays_without_copying(dtype):
    A = small(dtype)
    view = as_csr(A)
    assert np.shares_memory(view.indices, A.indices)
    assert np.shares_memory(view.data, A.data)
    assert view.data.dtype == dtype
    assert view.indptr.dtype == np.int64
    assert view.indices.dtype == np.int32
    assert_same(view, A)


def test_looks_at_64_bit_offsets_without_copying():
    A = small(index=np.int64)
    view = as_csr(A)
    assert np.shares_memory(view.indptr, A.indptr)
    assert_same(view, A)


@pytest.mark.parametrize("index", [np.int8, np.uint8, np.int16, np.uint16, np.uint32, np.int64, np.uint64])
def test_takes_every_integer_type_for_indices(index):
    A = small()
    A.indptr, A.indices = A.indptr.astype(index), A.indices.astype(index)
    assert_same(as_csr(A), small())


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.int32, np.int64, np.uint64])
def test_promotes_booleans_and_integers(dtype):
    A = small(dtype)
    view = as_csr(A)
    assert view.data.dtype == np.float64
    np.testing.assert_array_equal(view.data, A.data)


def test_converts_values_on_request():
    assert as_csr(small(), dtype="float32").data.dtype == np.float32
    assert as_csr(small(np.float32), dtype=np.float64).data.dtype == np.float64
    assert as_csr(as_csr(small()), dtype=np.float32).data.dtype == np.float32
    view = as_csr(small())
    assert as_csr(view) is view


def test_copies_what_is_not_native_and_contiguous():
    A = small()
    A.indptr, A.indices, A.data = A.indptr.astype(">i4"), A.indices.astype(">i8"), A.data.astype(">f8")
    assert_same(as_csr(A), small())
    A = small()
    A.indices, A.data = np.repeat(A.indices, 2)[::2], np.repeat(A.data, 3)[::3]
    assert_same(as_csr(A), small())


def test_copies_what_is_not_aligned():
    A = small()
    A.data = np.frombuffer(b"\0" + A.data.tobytes(), dtype=np.float64, offset=1)
    A.indices = np.frombuffer(b"\0" + A.indices.tobytes(), dtype=np.int32, offset=1)
    view = as_csr(A)
    assert view.data.flags.aligned
    assert view.indices.flags.aligned
    assert_same(view, small())


def test_arrays_may_be_longer_than_nnz():
    A = small()
    A.indices = np.append(A.indices, [77, -5]).astype(np.int32)  # never read
    A.data = np.append(A.data, [np.nan] * 3)
    view = as_csr(A)
    assert view.nnz == 6
    A.indices = A.indices.astype(np.int64)
    assert as_csr(A).indices.size == 6


def test_arrays_may_be_longer_than_nnz_in_every_format_that_has_them():
    """Each array by another length, which SciPy's constructors refuse."""
    expected = small().toarray()
    for A in (small(), small().tocsc(), sp.bsr_array(expected, blocksize=(2, 1))):
        A.indices = np.append(A.indices, [77, -5]).astype(np.int32)
        A.data = np.concatenate([A.data, np.full((3, *A.data.shape[1:]), np.nan)])
        for pattern_only in (True, False):
            view = as_csr(A, pattern_only=pattern_only)
            assert view.nnz == view.indices.size
        assert view.nnz == view.data.size
        assert_same(view, small())


@pytest.mark.parametrize("format", ["csr", "csc"])
def test_values_are_counted_where_only_the_pattern_is_read(format):
    A = small().asformat(format)
    nnz = A.nnz
    A.data = A.data[: nnz - 2]
    for pattern_only in (True, False):
        with pytest.raises(errors.InvalidMatrixError, match=f"at least nnz = {nnz} entries, got {nnz - 2}") as caught:
            as_csr(A, pattern_only=pattern_only)
        assert (caught.value.argument, caught.value.position) == ("data", nnz - 2)
    A.data = None
    with pytest.raises((errors.InvalidMatrixError, errors.DtypeError)) as caught:
        as_csr(A, pattern_only=True)
    assert caught.value.argument == "data"


def test_pattern_only_leaves_the_values_out():
    view = as_csr(small(np.complex128), pattern_only=True)
    assert view.data is None
    assert view.nnz == 6
    with pytest.raises(errors.InvalidMatrixError, match="without values"):
        as_csr(view)


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0), (3, 4)])
@pytest.mark.parametrize("format", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
def test_empty_matrices_of_every_format(format, shape):
    if format == "bsr" and 0 in shape:
        pytest.skip("SciPy has no such BSR matrix")
    view = as_csr(sp.csr_array(shape).asformat(format))
    assert view.shape == shape
    assert view.nnz == 0


def test_nan_and_infinity_are_values():
    A = small()
    A.data[:3] = np.nan, np.inf, -np.inf
    np.testing.assert_array_equal(as_csr(A).data, A.data)


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("format", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_converts_every_scipy_format(format, container, dtype):
    A = container(np.array([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, 0, 0], [0, 4, 0, 5]], dtype)).asformat(format)
    view = as_csr(A)
    assert view.data.dtype == (np.float32 if dtype == np.float32 else np.float64)
    assert_same(view, A)


def test_converts_swapped_bytes_of_every_format():
    dense = np.array([[0.0, 2, 0, 1], [0, 0, 0, 0]])
    for format in ("csc", "coo", "bsr", "dia"):
        A = sp.csr_array(dense).asformat(format)
        A.data = A.data.astype(">f8")
        np.testing.assert_array_equal(to_scipy(as_csr(A)).toarray(), dense)


@st.composite
def matrices(draw):
    rows, cols = draw(st.integers(0, 12)), draw(st.integers(0, 12))
    lengths = draw(st.lists(st.integers(0, 15 if cols else 0), min_size=rows, max_size=rows))
    nnz = sum(lengths)
    columns = draw(st.lists(st.integers(0, max(cols - 1, 0)), min_size=nnz, max_size=nnz))
    index = draw(st.sampled_from([np.int32, np.int64, np.uint32, np.uint64, np.int8]))
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return indptr.astype(np.int64), np.array(columns, index), np.arange(1.0, nnz + 1), (rows, cols)


@given(matrices())
@settings(deadline=None)
def test_any_legal_matrix_gives_what_scipy_gives(parts):
    indptr, indices, data, shape = parts
    view = compressed(*parts)
    expected = sp.csr_array((data, indices.astype(np.int32), indptr.astype(np.int32)), shape=shape)
    assert_same(view, expected)


@given(matrices(), st.data())
@settings(deadline=None)
def test_one_index_out_of_range_is_always_found(parts, data):
    indptr, indices, values, shape = parts
    if indices.size == 0:
        return
    at = data.draw(st.integers(0, indices.size - 1))
    wide = indices.astype(np.int64)
    wide[at] = data.draw(st.integers(-(2**63), -1) | st.integers(shape[1], 2**63 - 1))
    with pytest.raises(errors.InvalidMatrixError) as caught:
        compressed(indptr, wide, values, shape)
    assert (caught.value.argument, caught.value.position) == ("indices", at)
    assert str(wide[at]) in str(caught.value)


# ----- malformed arrays -----


def changed(name, change, index=np.int32):
    A = small(index=index)
    array = getattr(A, name).copy()
    setattr(A, name, change(array))
    return A


def put(position, value):
    def change(array):
        array[position] = value
        return array

    return change


MALFORMED = {
    # name: (attribute, change, position, words of the message)
    "indptr does not start at 0": ("indptr", put(0, 1), 0, r"indptr\[0\] must be 0, got 1"),
    "indptr starts below 0": ("indptr", put(0, -1), 0, r"indptr\[0\] must be 0, got -1"),
    "indptr decreases": ("indptr", put(2, 1), 2, r"must not decrease, but indptr\[2\] = 1"),
    "indptr turns negative": ("indptr", put(3, -7), 3, r"indptr\[3\] = -7"),
    "indptr ends negative": ("indptr", put(4, -1), 4, r"indptr\[4\] = -1"),
    "indptr overshoots and comes back": ("indptr", put(1, 100), 2, "must not decrease"),
    "indptr overshoots": ("indptr", put(4, 9), 4, "indptr ends at 9 but there are only 6 indices"),
    "indptr is too short": ("indptr", lambda a: a[:-1], None, r"rows \+ 1 = 5 entries, got 4"),
    "indptr is too long": ("indptr", lambda a: np.append(a, 6), None, r"rows \+ 1 = 5 entries, got 6"),
    "indptr is empty": ("indptr", lambda a: a[:0], None, "got 0"),
    "indptr is two-dimensional": ("indptr", lambda a: a[None], None, "one-dimensional"),
    "indices are negative": ("indices", put(3, -1), 3, r"indices\[3\] = -1 is outside \[0, 5\)"),
    "indices are out of range": ("indices", put(5, 5), 5, r"indices\[5\] = 5 is outside \[0, 5\)"),
    "indices are too short": ("indices", lambda a: a[:-2], 3, "there are only 4 indices"),
    "indices are two-dimensional": ("indices", lambda a: a[None], None, "one-dimensional"),
    "data is too short": ("data", lambda a: a[:-1], 5, "at least nnz = 6 entries, got 5"),
    "data is two-dimensional": ("data", lambda a: a[None], None, "one-dimensional"),
}


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_arrays_are_reported(case, index):
    name, change, position, words = MALFORMED[case]
    A = changed(name, change, index)
    before = [a.copy() for a in (A.indptr, A.indices, A.data)]
    with pytest.raises(errors.InvalidMatrixError, match=words) as caught:
        as_csr(A)
    argument = "indptr" if case == "indices are too short" else name
    assert (caught.value.argument, caught.value.position) == (argument, position)
    for array, copy in zip((A.indptr, A.indices, A.data), before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (np.int64, BEYOND),
        (np.int64, -BEYOND),
        (np.int64, 2**31),
        (np.int64, -(2**63)),
        (np.uint32, 2**32 - 1),
        (np.uint64, BEYOND),
        (np.uint64, 2**64 - 1),
        (np.uint64, 2**63),
    ],
)
def test_wide_indices_do_not_wrap_around(dtype, value):
    A = small()
    A.indices = A.indices.astype(dtype)
    A.indices[4] = value
    with pytest.raises(errors.InvalidMatrixError, match=rf"indices\[4\] = {value} is outside") as caught:
        as_csr(A)
    assert (caught.value.argument, caught.value.position) == ("indices", 4)


@pytest.mark.parametrize(("dtype", "value"), [(np.int64, BEYOND), (np.uint64, 2**64 - 1), (np.int64, 2**62)])
def test_wide_offsets_do_not_wrap_around(dtype, value):
    A = small()
    A.indptr = A.indptr.astype(dtype)
    A.indptr[4] = value
    with pytest.raises(errors.InvalidMatrixError, match=str(value)) as caught:
        as_csr(A)
    assert (caught.value.argument, caught.value.position) == ("indptr", 4)


def test_the_first_bad_position_is_reported_whatever_the_threads_do():
    indices = np.zeros(2_000_000, np.int32)
    indices[[1_999_999, 1_200_000, 700_001]] = 9
    for dtype in (np.int32, np.int64):
        with pytest.raises(errors.InvalidMatrixError) as caught:
            compressed(np.array([0, indices.size]), indices.astype(dtype), None, (1, 9))
        assert caught.value.position == 700_001


@pytest.mark.parametrize("name", ["indptr", "indices"])
@pytest.mark.parametrize("dtype", [np.float64, np.bool_, np.complex64, object])
def test_indices_must_be_integers(name, dtype):
    A = changed(name, lambda a: a.astype(dtype))
    with pytest.raises(errors.DtypeError, match=f"{name} must be integers") as caught:
        as_csr(A)
    assert caught.value.argument == name


@pytest.mark.parametrize(
    "dtype",
    [np.longdouble, np.complex64, np.complex128, object, "datetime64[s]", "U4"],
)
def test_unsupported_values(dtype):
    A = small()
    A.data = A.data.astype(np.int64).astype(dtype)
    with pytest.raises(errors.DtypeError, match="float32, float64") as caught:
        as_csr(A)
    assert caught.value.argument == "data"
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "bsr", "dia"])
def test_float16_of_every_format_that_stores_it(format):
    """SciPy stores float16 in these formats but does not compute with it."""
    A = small().asformat(format)
    A.data = A.data.astype(np.float16)
    view = as_csr(A)
    assert view.data.dtype == np.float16
    seen = sp.csr_array((view.data.astype(np.float64), view.indices, view.indptr), shape=view.shape)
    np.testing.assert_array_equal(seen.toarray(), small().toarray())


@pytest.mark.parametrize("format", ["csc", "coo", "bsr", "dia", "lil", "dok"])
def test_unsupported_values_of_every_format(format):
    with pytest.raises(errors.DtypeError) as caught:
        as_csr(small(np.complex64).asformat(format))
    assert caught.value.argument == "data"


@pytest.mark.parametrize("dtype", [np.int32, "complex64", "no such type"])
def test_unsupported_dtype_argument(dtype):
    with pytest.raises(errors.DtypeError, match="dtype must be float16, bfloat16, float32 or float64") as caught:
        as_csr(small(), dtype=dtype)
    assert caught.value.argument == "dtype"


@pytest.mark.parametrize("shape", [(2**31, 3), (3, 2**31), (2**40, 2**40)])
@pytest.mark.parametrize("container", [sp.coo_array, sp.dok_array, sp.dia_array])
def test_sizes_beyond_the_index_type(shape, container):
    if container is sp.dia_array:
        A = sp.dia_array((np.ones((1, 1)), [0]), shape=shape)
    elif container is sp.coo_array:
        A = sp.coo_array(([1.0], ([0], [0])), shape=shape)
    else:
        A = sp.dok_array(shape)
    with pytest.raises(errors.IndexOverflowError, match="beyond the 32-bit") as caught:
        as_csr(A)
    assert caught.value.argument == "shape"
    with pytest.raises(errors.IndexOverflowError):
        compressed([0], [], None, shape)


def test_the_core_itself_checks_sizes():
    empty = np.zeros(1, np.int64), np.zeros(0, np.int32), None
    with pytest.raises(errors.IndexOverflowError):
        _core.CsrView(*empty, 0, 2**31)
    with pytest.raises(errors.ShapeError):
        _core.CsrView(*empty, 0, -1)
    assert _core.CsrView(*empty, 0, 2**31 - 1).shape == (0, 2**31 - 1)


# ----- malformed matrices of other formats -----


def test_malformed_csc():
    A = small().tocsc()
    A.indices[2] = 4
    with pytest.raises(errors.InvalidMatrixError) as caught:
        as_csr(A)
    assert (caught.value.argument, caught.value.position) == ("indices", 2)


@pytest.mark.parametrize("value", [-1, 4, BEYOND])
def test_malformed_coo(value):
    A = small().tocoo()
    A.coords = tuple(c.astype(np.int64) for c in A.coords)
    A.coords[0][3] = value
    with pytest.raises(errors.InvalidMatrixError, match=rf"row\[3\] = {value}") as caught:
        as_csr(A)
    assert (caught.value.argument, caught.value.position) == ("row", 3)


def test_coo_of_unequal_lengths():
    A = small().tocoo()
    A.data = A.data[:-1]
    with pytest.raises(errors.InvalidMatrixError, match="row has 6 entries but data has 5"):
        as_csr(A)


def test_malformed_bsr():
    A = sp.bsr_array(np.ones((4, 6)), blocksize=(2, 3))
    A.indices[1] = 2
    with pytest.raises(errors.InvalidMatrixError) as caught:
        as_csr(A)
    assert (caught.value.argument, caught.value.position) == ("indices", 1)
    A = sp.bsr_array(np.ones((4, 6)), blocksize=(2, 3))
    A.data = A.data[:3]
    with pytest.raises(errors.InvalidMatrixError, match="at least 4 blocks") as caught:
        as_csr(A)
    assert (caught.value.argument, caught.value.position) == ("data", 3)
    A.data = np.ones((4, 3, 3))
    with pytest.raises(errors.InvalidMatrixError, match="do not tile"):
        as_csr(A)


def test_malformed_dia():
    A = sp.dia_array((np.ones((2, 4)), [0, 1]), shape=(4, 4))
    A.offsets = np.array([0, 1, 2])
    with pytest.raises(errors.InvalidMatrixError, match="each of the 3 offsets"):
        as_csr(A)
    A.offsets = np.array([1, 1])
    with pytest.raises(errors.InvalidMatrixError, match="repeat"):
        as_csr(A)
    A.offsets = np.array([0, 2**32 + 1])  # a diagonal outside the matrix holds nothing
    np.testing.assert_array_equal(to_scipy(as_csr(A)).toarray(), np.eye(4))


def test_malformed_lil():
    A = small().tolil()
    A.rows[0].append(9)
    with pytest.raises(errors.InvalidMatrixError, match="row 0 has 3 columns but 2 values"):
        as_csr(A)
    A = small().tolil()
    A.rows[0][0] = BEYOND
    with pytest.raises(errors.InvalidMatrixError, match=str(BEYOND)):
        as_csr(A)
    A.rows[0][0] = 2**70
    with pytest.raises(errors.IndexOverflowError):
        as_csr(A)


@pytest.mark.parametrize(
    "A",
    [np.eye(3), [[1, 2]], None, 3.5, "A", sp],
)
def test_what_is_not_sparse(A):
    with pytest.raises(errors.InvalidMatrixError, match=r"scipy\.sparse\.csr_array\(A\)") as caught:
        as_csr(A)
    assert caught.value.argument == "A"


@pytest.mark.parametrize("format", ["csr", "coo"])
def test_one_dimension_is_too_few(format):
    vector = sp.coo_array(np.array([1.0, 0, 2])).asformat(format)
    with pytest.raises(errors.ShapeError, match="two dimensions") as caught:
        as_csr(vector)
    assert caught.value.argument == "A"


# ----- other frameworks -----


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def torch_csr(torch, A):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "Sparse CSR tensor support is in beta state", once a process
        return torch.sparse_csr_tensor(
            torch.from_numpy(A.indptr),
            torch.from_numpy(A.indices),
            torch.from_numpy(A.data),
            size=A.shape,
            check_invariants=False,
        )


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_torch_csr(torch, dtype, index):
    A = small(dtype, index)
    view = as_csr(torch_csr(torch, A).requires_grad_(dtype != np.int32))
    assert view.data.dtype == (np.float32 if dtype == np.float32 else np.float64)
    assert_same(view, A)
    if dtype != np.int32:
        assert np.shares_memory(view.data, A.data)


def test_malformed_torch_csr(torch):
    A = small(index=np.int64)
    A.indices[4] = BEYOND
    with pytest.raises(errors.InvalidMatrixError, match=str(BEYOND)) as caught:
        as_csr(torch_csr(torch, A))
    assert (caught.value.argument, caught.value.position) == ("indices", 4)


@pytest.mark.filterwarnings("ignore:Sparse .* tensor support")  # PyTorch's, once a process
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "bool"])
def test_torch_coo_and_csc(torch, dtype, index):
    A = small(index=index)
    expected = A.toarray() != 0 if dtype == "bool" else A.toarray()
    as_coo = A.tocoo()
    places = torch.from_numpy(np.stack([as_coo.row, as_coo.col]).astype(np.int64))
    coo = torch.sparse_coo_tensor(places, torch.from_numpy(as_coo.data), A.shape)  # which repeats a place
    assert not coo.is_coalesced()
    csc = torch.sparse_csc_tensor(
        *map(torch.from_numpy, (A.tocsc().indptr, A.tocsc().indices, A.tocsc().data)), A.shape
    )
    for tensor in (coo, coo.coalesce(), csc, torch.from_numpy(A.toarray()).to_sparse_csc()):
        view = as_csr(tensor.to(getattr(torch, dtype)))
        values = _bfloat16.cast(view.data, np.dtype(np.float64))
        found = sp.csr_array((values, view.indices, view.indptr), shape=view.shape).toarray()
        np.testing.assert_array_equal(found != 0 if dtype == "bool" else found, expected)
        assert _bfloat16.name_of(view.data.dtype) == (dtype if "float" in dtype else "float64")


@pytest.mark.filterwarnings("ignore:Sparse .* tensor support")  # PyTorch's, once a process
def test_malformed_torch_coo_and_csc(torch):
    def refused(A, argument, position=None):
        with pytest.raises(errors.InvalidMatrixError) as caught:
            as_csr(A)
        assert (caught.value.argument, caught.value.position) == (argument, position)

    values = torch.arange(3.0)
    for column in (-1, 5):
        places = torch.tensor([[0, 1, 2], [4, column, 0]])
        refused(torch.sparse_coo_tensor(places, values, (4, 5), check_invariants=False), "col", 1)
        refused(torch.sparse_coo_tensor(places.flip(0), values, (5, 4), check_invariants=False), "row", 1)
    ends, rows = torch.tensor([0, 1, 3]), torch.tensor([0, 7, 1])
    refused(torch.sparse_csc_tensor(ends, rows, values, (4, 2), check_invariants=False), "indices", 1)
    refused(torch.sparse_coo_tensor(torch.tensor([[0, 2]]), torch.ones(2, 4), (3, 4)), "A")  # rows, not numbers


@pytest.mark.filterwarnings("ignore:Sparse .* tensor support")  # PyTorch's, once a process
def test_other_torch_tensors(torch):
    A = torch_csr(torch, small())
    for complex_ in (A, A.to_sparse_coo(), A.to_sparse_csc()):
        with pytest.raises(errors.DtypeError):
            as_csr(complex_.to(torch.complex64))
    for other in (A.to_dense(), torch.ones(4, 4).to_sparse_bsr((2, 2))):
        with pytest.raises(errors.InvalidMatrixError, match=r"to_sparse_csr\(\)"):
            as_csr(other)
    with pytest.raises(errors.ShapeError, match="two dimensions"):
        as_csr(torch.ones(2, 3, 4).to_sparse_coo())


def test_bfloat16(torch):
    """Bits of tensors are viewed as they are; other values are rounded to the nearest, ties to even."""
    A = torch_csr(torch, small()).to(torch.bfloat16)
    view = as_csr(A)
    assert _bfloat16.is_bfloat16(view.data.dtype)
    np.testing.assert_array_equal(view.data.view(np.int16), A.values().view(torch.int16).numpy())
    for wanted in (np.float32, np.float64, np.float16):
        np.testing.assert_array_equal(as_csr(A, dtype=wanted).data, A.values().double().numpy().astype(wanted))
    values = np.random.default_rng(0).standard_normal(1000) * 10.0 ** np.arange(-500, 500).clip(-45, 38)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1 + 2.0**-8, 1 + 3 * 2.0**-8, -1 - 2.0**-8, 3.4e38, 2.0**-133]
    with np.errstate(over="ignore"):
        data = np.concatenate([values, special]).astype(np.float32)
    row = sp.csr_array((data, np.zeros(len(data), np.int32), [0, len(data)]), shape=(1, 1))
    expected = torch.from_numpy(data).to(torch.bfloat16)
    for dtype in ("bfloat16", torch.bfloat16):
        rounded = as_csr(row, dtype=dtype).data
        known = ~np.isnan(data)
        np.testing.assert_array_equal(rounded.view(np.int16)[known], expected.view(torch.int16).numpy()[known])
        assert np.isnan(_bfloat16.cast(rounded, np.dtype(np.float32))[~known]).all()


class OnDevice(SimpleNamespace):
    """What as_csr needs of a CuPy matrix, under CuPy's name: arrays that come to the host with get()."""

    __module__ = "cupyx.scipy.sparse._csr"


def test_cupy_csr():
    A = small()
    arrays = {name: SimpleNamespace(get=partial(getattr, A, name)) for name in ("indptr", "indices", "data")}
    assert_same(as_csr(OnDevice(format="csr", shape=A.shape, get=lambda: None, **arrays)), A)


def test_cupy_in_another_format():
    assert_same(as_csr(OnDevice(format="csc", get=lambda: small().tocsc())), small())

    def malformed():
        raise ValueError("index pointer size 3 should be 5")

    with pytest.raises(errors.InvalidMatrixError, match="index pointer size"):
        as_csr(OnDevice(format="csc", get=malformed))
