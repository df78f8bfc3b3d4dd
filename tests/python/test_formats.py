"""Every format of the registry: its class, its face, and the way to it and back."""

from __future__ import annotations

import doctest
import gc
import importlib.util
import inspect
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings

import warploom._core as core
from battery import battery
from round_trips import DTYPES, mehrabi_1
from strategies import csr_matrices
from warploom import formats
from warploom._matrix import as_csr
from warploom.candidates import kernels
from warploom.errors import DtypeError, InvalidMatrixError, ParameterError

ROOT = Path(__file__).parents[2]
REGISTERED = {known["name"]: known for known in core.formats()}
ALL = [formats.find(name) for name in formats.names()]
ROWS = [formats.CSR, formats.DCSR]  # entries row after row, in the order of the caller
SETTINGS = [
    (cls, {option["name"]: value})
    for cls in ALL
    for option in REGISTERED[cls.name]["options"]
    for value in option["tested"]
]


def fig_1(dtype=np.float64):
    return scipy.sparse.csr_array(mehrabi_1().astype(dtype))


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
            with np.errstate(over="ignore"):
                sums[row, column] = sums[row, column] + value if (row, column) in sums else value
    return [(row, column, value.tobytes()) for (row, column), value in sorted(sums.items(), key=lambda item: item[0])]


def expected_entries(cls, A):
    return added_up(A) if REGISTERED[cls.name]["adds_repeated"] else entries(A.data, A.indices, A.indptr)


def test_every_format_of_the_registry_has_a_class():
    assert formats.names() == tuple(REGISTERED)
    assert set(formats.__all__) == {cls.__name__ for cls in ALL} | {"Format", "find", "names"}
    assert all(getattr(formats, cls.__name__) is cls for cls in ALL)


def test_every_format_of_a_kernel_is_registered():
    assert {kernel.format for op in ("spmm", "spmv") for kernel in kernels(op)} <= set(REGISTERED)


def test_type_stub_names_the_classes():
    spec = importlib.util.spec_from_file_location("make_stub", ROOT / "python" / "bindings" / "make_stub.py")
    make_stub = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_stub)
    assert make_stub.FORMATS.read_text() == make_stub.formats_stub()


@pytest.mark.parametrize("cls", ALL)
def test_examples_of_the_docstring(cls):
    for test in doctest.DocTestFinder().find(cls, cls.__name__, module=sys.modules[cls.__module__]):
        assert doctest.DocTestRunner().run(test).failed == 0


@pytest.mark.parametrize("cls", ALL)
def test_options_are_those_of_the_registry(cls):
    _, *parameters = inspect.signature(cls.from_csr).parameters.values()
    assert [(p.name, p.default) for p in parameters] == [
        (option["name"], option["default"]) for option in REGISTERED[cls.name]["options"]
    ]


@pytest.mark.parametrize(("cls", "options"), [(cls, {}) for cls in ALL] + SETTINGS)
@settings(max_examples=25)
@given(A=csr_matrices(max_rows=40, dtypes=DTYPES, allow_nonfinite=True))
def test_nothing_is_lost(cls, options, A):
    if REGISTERED[cls.name]["adds_repeated"]:
        A.data[~np.isfinite(A.data)] = 1  # the bits of a NaN that comes of a sum are anyone's
    stored = cls.from_csr(A, **options)
    expected = expected_entries(cls, A)
    assert entries(*stored._core.to_csr()) == expected
    assert (stored.shape, stored.dtype, stored.nnz) == (A.shape, A.dtype, len(expected))


@pytest.mark.parametrize(("cls", "options"), SETTINGS)
def test_options_of_another_type_are_refused(cls, options):
    for name in options:
        for wrong in ("8", [1]):
            with pytest.raises(TypeError, match=f"{name} must be"):
                cls.from_csr(fig_1(), **{name: wrong})


def test_unknown_formats_and_options_are_refused():
    view = as_csr(fig_1())
    with pytest.raises(ParameterError, match="no format is called 'csc'; there are csr, dcsr, "):
        formats.find("csc")
    with pytest.raises(ParameterError, match="no format is called 'csc'; there are csr, dcsr, "):
        core.store("csc", view, {})
    with pytest.raises(ParameterError, match="format csr has no option 'height'"):
        core.store("csr", view, {"height": 8})
    with pytest.raises(ParameterError, match="height is out of range, got 4294967296"):
        formats.CMRS.from_csr(fig_1(), height=2**32)


@pytest.mark.parametrize("cls", ALL)
def test_arrays_are_read_only_and_outlive_the_matrix(cls):
    stored = cls.from_csr(fig_1())
    arrays = stored.arrays()
    assert stored.nbytes == sum(array.nbytes for array in arrays.values())
    assert not any(array.flags.writeable for array in arrays.values())
    before = {name: array.copy() for name, array in arrays.items()}
    del stored
    gc.collect()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("cls", ALL)
def test_fields_of_another_kind_or_name_are_not_found(cls):
    stored = cls.from_csr(fig_1())._core
    for find in (stored.array, stored.scalar, stored.counts, stored.part):
        with pytest.raises(KeyError, match="nothing"):
            find("nothing")
    for name in stored.arrays():
        if "." not in name:
            for find in (stored.scalar, stored.counts, stored.part):
                with pytest.raises(KeyError, match=name):
                    find(name)


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
    # One long row is too much padding unless it is asked for.
    options = {option["name"] for option in REGISTERED[cls.name]["options"]}
    stored = cls.from_csr(A, max_width=2000) if "max_width" in options else cls.from_csr(A)
    expected = expected_entries(cls, A)
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
