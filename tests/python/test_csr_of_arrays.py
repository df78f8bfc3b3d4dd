"""Three arrays of any library are a matrix, wherever one is taken."""

import dataclasses
import types

import numpy as np
import pytest
import scipy.sparse as sp

import warploom as wl
from warploom import errors, features, formats, permutations
from warploom._device_matrix import device_arrays
from warploom._matrix import as_csr

INDPTR = np.array([0, 2, 2, 5, 6], np.int32)
INDICES = np.array([3, 0, 4, 1, 1, 2], np.int32)
DATA = np.arange(1, 7, dtype=np.float32)
SHAPE = (4, 5)
THE_SAME = sp.csr_array((DATA, INDICES, INDPTR), shape=SHAPE)


class Interface:
    """An array of a library that has nothing but ``__array_interface__``."""

    def __init__(self, array):
        self.__array_interface__ = array.__array_interface__
        self.owner = array


class Exchanged:
    """An array of a library that has nothing but DLPack."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device


def to_torch(array):
    return pytest.importorskip("torch").from_numpy(array)


LIBRARIES = [np.asarray, to_torch, Interface, Exchanged]


def dense(view):
    return sp.csr_array((view.data, view.indices, view.indptr), shape=view.shape).toarray()


@pytest.mark.parametrize("library", LIBRARIES)
def test_arrays_are_viewed_without_a_copy(library):
    indptr = INDPTR.astype(np.int64)
    view = as_csr(wl.CSR(library(indptr), library(INDICES), library(DATA), SHAPE))
    assert view.shape == SHAPE
    for seen, given in ((view.indptr, indptr), (view.indices, INDICES), (view.data, DATA)):
        assert np.shares_memory(seen, given)
        np.testing.assert_array_equal(seen, given)


@pytest.mark.parametrize("offsets", [np.int32, np.int64, np.uint8])
@pytest.mark.parametrize("columns", [np.int32, np.int64, np.uint64])
def test_integers_of_any_type(offsets, columns):
    view = as_csr(wl.CSR(INDPTR.astype(offsets), INDICES.astype(columns), DATA, SHAPE))
    np.testing.assert_array_equal(dense(view), THE_SAME.toarray())


def test_libraries_may_be_mixed_and_arrays_strided():
    view = as_csr(wl.CSR(np.repeat(INDPTR, 2)[::2], to_torch(np.repeat(INDICES, 3))[::3], list(range(1, 7)), SHAPE))
    assert view.data.dtype == np.float64
    np.testing.assert_array_equal(dense(view), THE_SAME.toarray())


def test_arrays_may_be_longer_than_they_need_be():
    view = as_csr(wl.CSR(INDPTR, np.append(INDICES, -7), np.append(DATA, np.nan), SHAPE))
    np.testing.assert_array_equal(dense(view), THE_SAME.toarray())


def test_a_tensor_that_requires_a_gradient_is_a_value():
    data = to_torch(DATA.copy()).requires_grad_()
    np.testing.assert_array_equal(as_csr(wl.CSR(INDPTR, INDICES, data, SHAPE)).data, DATA)


@pytest.mark.parametrize("library", LIBRARIES)
def test_wherever_a_matrix_is_taken(library):
    A = wl.CSR(library(INDPTR), library(INDICES), library(DATA), SHAPE)
    assert device_arrays(A) is None
    x = np.array([1, 10, 100, 1000, 10000], np.float32)
    plan = wl.plan(A, "spmv", device="cpu", select="spmv/none/csr/vector")
    assert plan.dtype == np.float32
    np.testing.assert_array_equal(plan @ x, THE_SAME @ x)
    np.testing.assert_array_equal(wl.spmv(A, x, candidate="spmv/none/csr/vector", device="cpu"), THE_SAME @ x)
    assert features.spmm(A) == features.spmm(THE_SAME)
    assert features.spmv(A) == features.spmv(THE_SAME)
    assert wl.predict(A, "spmv").chosen == wl.predict(THE_SAME, "spmv").chosen
    stored = formats.find("coo").from_csr(A)
    np.testing.assert_array_equal(stored.to_csr().toarray(), THE_SAME.toarray())
    np.testing.assert_array_equal(permutations.compute("lpt", A), permutations.compute("lpt", THE_SAME))
    moved = permutations.apply(A, np.array([3, 1, 0, 2]))
    np.testing.assert_array_equal(moved.toarray(), THE_SAME.toarray()[[3, 1, 0, 2]])


def test_is_frozen_and_says_what_it_is():
    A = wl.CSR(INDPTR, INDICES, DATA, [np.int64(4), 5])
    assert A.shape == SHAPE
    assert A.indptr is INDPTR
    assert repr(A) == "<CSR 4 x 5, data numpy.ndarray>"
    with pytest.raises(dataclasses.FrozenInstanceError):
        A.data = None


@pytest.mark.parametrize("name", ["indptr", "indices", "data"])
def test_arrays_have_one_dimension(name):
    arrays = {"indptr": INDPTR, "indices": INDICES, "data": DATA}
    arrays[name] = arrays[name].reshape(-1, 1)
    with pytest.raises(errors.InvalidMatrixError, match=f"{name} must be one-dimensional, got shape") as caught:
        wl.CSR(**arrays, shape=SHAPE)
    assert caught.value.argument == name


@pytest.mark.parametrize("name", ["indptr", "indices"])
@pytest.mark.parametrize("dtype", [np.float64, np.bool_, object])
def test_positions_are_integers(name, dtype):
    arrays = {"indptr": INDPTR, "indices": INDICES, "data": DATA}
    arrays[name] = arrays[name].astype(dtype)
    with pytest.raises(errors.DtypeError, match=f"{name} must be integers, got") as caught:
        wl.CSR(**arrays, shape=SHAPE)
    assert caught.value.argument == name


def test_values_are_real_numbers():
    torch = pytest.importorskip("torch")
    for data in (DATA.astype(complex), torch.zeros(6, dtype=torch.complex64), np.array(["a"] * 6)):
        with pytest.raises(errors.DtypeError, match="data must be float16, bfloat16, float32, float64") as caught:
            wl.CSR(INDPTR, INDICES, data, SHAPE)
        assert caught.value.argument == "data"


@pytest.mark.parametrize("shape", [4, None, (4,), (4, 5, 6), (4, 5.0), "45"])
def test_shape_is_a_pair_of_integers(shape):
    with pytest.raises(errors.ShapeError, match="shape must be a pair of integers") as caught:
        wl.CSR(INDPTR, INDICES, DATA, shape)
    assert caught.value.argument == "shape"


def test_sizes_of_shape():
    with pytest.raises(errors.ShapeError, match="columns must not be negative, got -1"):
        wl.CSR(INDPTR, INDICES, DATA, (4, -1))
    with pytest.raises(errors.IndexOverflowError, match="4294967296 rows are beyond"):
        wl.CSR(INDPTR, INDICES, DATA, (2**32, 5))
    with pytest.raises(errors.InvalidMatrixError, match=r"indptr must have rows \+ 1 = 6 entries, got 5") as caught:
        wl.CSR(INDPTR, INDICES, DATA, (5, 5))
    assert caught.value.argument == "indptr"


def test_dense_arrays_only():
    torch = pytest.importorskip("torch")
    with pytest.raises(errors.InvalidMatrixError, match=r"data must be dense, got layout torch\.sparse_coo"):
        wl.CSR(INDPTR, INDICES, torch.ones(6).to_sparse(), SHAPE)


def test_devices():
    torch = pytest.importorskip("torch")
    with pytest.raises(errors.DeviceError, match="indices is on device 'meta'") as caught:
        wl.CSR(INDPTR, torch.zeros(6, dtype=torch.int32, device="meta"), DATA, SHAPE)
    assert caught.value.argument == "indices"
    with pytest.raises(errors.DeviceError, match="data is on a device of kind 8 of DLPack") as caught:
        wl.CSR(INDPTR, INDICES, Exchanged(DATA, (8, 0)), SHAPE)
    assert caught.value.argument == "data"


def on_gpu(array, number):
    """Return what has the looks of a CuPy array."""
    kind = type("ndarray", (), {"__module__": "cupy", "ndim": 1, "shape": array.shape, "dtype": array.dtype})
    made = kind()
    made.device = types.SimpleNamespace(id=number)
    return made


@pytest.mark.parametrize(
    ("places", "argument", "message"),
    [
        ((None, 0, 0), "indices", "indices is on GPU 0 but indptr is in host memory"),
        ((0, 0, None), "data", "data is in host memory but indptr is on GPU 0"),
        ((0, 1, 1), "indices", "indices is on GPU 1 but indptr is on GPU 0"),
        ((1, 1, 0), "data", "data is on GPU 0 but indptr is on GPU 1"),
    ],
)
def test_arrays_are_on_one_device(places, argument, message):
    arrays = [
        array if place is None else on_gpu(array, place)
        for array, place in zip((INDPTR, INDICES, DATA), places, strict=True)
    ]
    with pytest.raises(errors.DeviceError, match=message) as caught:
        wl.CSR(*arrays, SHAPE)
    assert caught.value.argument == argument


def test_gpu_arrays_need_a_library_to_be_exchanged(monkeypatch):
    monkeypatch.setattr("warploom._device._bridge", lambda: None)
    for data in (Exchanged(DATA, (2, 0)), types.SimpleNamespace(__cuda_array_interface__={})):
        with pytest.raises(errors.DeviceError, match="needs CuPy or torch to be exchanged") as caught:
            wl.CSR(INDPTR, INDICES, data, SHAPE)
        assert caught.value.argument == "data"


# What the arrays hold is checked where the matrix is used, as for every other kind.


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("name", "array", "position"),
    [
        ("indptr", [1, 2, 2, 5, 6], 0),
        ("indptr", [0, 2, 1, 5, 6], 2),
        ("indptr", [0, 2, 2, 5, 7], 4),
        ("indices", [3, 0, 4, 5, 1, 9], 3),
        ("indices", [3, -1, 4, 1, 1, 2], 1),
        ("data", [1, 2, 3, 4], 4),
    ],
)
def test_contents(library, name, array, position):
    arrays = {"indptr": INDPTR, "indices": INDICES, "data": DATA}
    arrays[name] = np.array(array, arrays[name].dtype)
    A = wl.CSR(**{key: library(value) for key, value in arrays.items()}, shape=SHAPE)
    with pytest.raises(errors.InvalidMatrixError, match=name) as caught:
        wl.plan(A, "spmv", device="cpu", select="spmv/none/csr/vector")
    assert (caught.value.argument, caught.value.position) == (name, position)
