"""Arrays of any library on a GPU are a matrix that never leaves it."""

import importlib

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import warploom as wl
from warploom import _core, errors, features
from warploom._device_matrix import device_arrays
from warploom._matrix import as_csr

NAMES = ("indptr", "indices", "data")
CANDIDATE = "spmv/none/csr/vector"


def to_torch(array, device="cuda"):
    return pytest.importorskip("torch").as_tensor(array, device=device)


def to_cupy(array):
    return pytest.importorskip("cupy").asarray(array)


class Exchanged:
    """An array of a library that has nothing but DLPack, as far as warploom knows."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Interface:
    """An array of a library that has nothing but ``__cuda_array_interface__``."""

    def __init__(self, array):
        self.__cuda_array_interface__ = array.__cuda_array_interface__
        self.owner = array


LIBRARIES = {
    "torch": to_torch,
    "CuPy": to_cupy,
    "DLPack": lambda array: Exchanged(to_torch(array)),
    "CUDA array interface": lambda array: Interface(to_torch(array)),
}


@pytest.fixture
def matrix():
    rng = np.random.default_rng(0)
    return csr_array(random_array((300, 200), density=0.1, rng=rng, format="csr")).astype(np.float32)


@pytest.fixture
def stays_on_gpu(monkeypatch):
    """Fail where a matrix is read in host memory."""

    def refuse(*args, **options):
        raise AssertionError("the matrix was downloaded to the host")

    monkeypatch.setattr(importlib.import_module("warploom.plan"), "as_csr", refuse)
    monkeypatch.setattr(features, "as_csr", refuse)


def address(array):
    return array.data_ptr() if hasattr(array, "data_ptr") else array.data.ptr


def arrays_of(matrix, library, offsets=np.int32, columns=np.int32):
    return [
        library(matrix.indptr.astype(offsets)),
        library(matrix.indices.astype(columns)),
        library(matrix.data),
    ]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("offsets", [np.int32, np.int64])
@pytest.mark.parametrize("columns", [np.int32, np.int64])
def test_products_and_features(matrix, library, offsets, columns, stays_on_gpu):
    A = wl.CSR(*arrays_of(matrix, LIBRARIES[library], offsets, columns), matrix.shape)
    x = np.random.default_rng(1).standard_normal(200).astype(np.float32)
    plan = wl.plan(A, "spmv", device="cuda", select=CANDIDATE)
    np.testing.assert_allclose(plan @ x, matrix @ x, rtol=1e-4, atol=1e-5)
    B = np.random.default_rng(2).standard_normal((200, 16)).astype(np.float32)
    found = wl.spmm(A, B, candidate="spmm/none/csr/row_split", device="cuda")
    np.testing.assert_allclose(found, matrix @ B, rtol=1e-4, atol=1e-5)
    host = as_csr(matrix)
    np.testing.assert_array_equal(features.spmm(A).values, _core.compute_features("spmm", host))
    np.testing.assert_allclose(features.spmv(A).values, _core.compute_features("spmv", host), rtol=1e-12)


@pytest.mark.parametrize("library", [to_torch, to_cupy])
def test_arrays_are_read_where_they_are(matrix, library):
    arrays = arrays_of(matrix, library, np.int64)
    seen = device_arrays(wl.CSR(*arrays, matrix.shape))
    values = seen.values_as(np.dtype(np.float32))
    assert [seen.indptr, seen.indices, values.data] == [address(array) for array in arrays]
    assert (seen.indptr_itemsize, seen.indices_itemsize) == (8, 4)


def test_libraries_may_be_mixed(matrix, stays_on_gpu):
    indptr, indices, data = arrays_of(matrix, to_torch)
    cupy = pytest.importorskip("cupy")
    x = np.ones(200, np.float32)
    for mixed in ((indptr, cupy.from_dlpack(indices), data), (indptr, indices, cupy.from_dlpack(data))):
        A = wl.CSR(*mixed, matrix.shape)
        seen = device_arrays(A)
        assert (seen.indptr, seen.indices) == (address(indptr), address(indices))
        np.testing.assert_allclose(wl.spmv(A, x, candidate=CANDIDATE, device="cuda"), matrix @ x, rtol=1e-4)


@pytest.mark.parametrize("library", [to_torch, to_cupy])
def test_strided_arrays_and_other_types_of_values(matrix, library, stays_on_gpu):
    data = (np.arange(matrix.nnz) % 7).astype(np.int32)
    indptr, indices, values = (library(np.repeat(array, 2))[::2] for array in (matrix.indptr, matrix.indices, data))
    plan = wl.plan(wl.CSR(indptr, indices, values, matrix.shape), "spmv", device="cuda", select=CANDIDATE)
    assert plan.dtype == np.float64
    expected = csr_array((data, matrix.indices, matrix.indptr), matrix.shape) @ np.ones(200)
    np.testing.assert_array_equal(plan @ np.ones(200), expected)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (300, 200), (40_000, 9_000), (400_000, 5_000)])
def test_a_plan_keeps_copies_of_arrays_that_start_anywhere(shape, dtype):
    """Small arrays are copied in another way than large ones, and whole vectors at a time where both are aligned."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 5, shape[0])
    lengths[0] = 3
    host = csr_array(
        (
            rng.integers(-8, 9, lengths.sum()).astype(dtype),
            rng.integers(0, shape[1], lengths.sum()).astype(np.int32),
            np.r_[0, np.cumsum(lengths)].astype(np.int32),
        ),
        shape,
    )
    x = rng.integers(-3, 4, shape[1]).astype(dtype)
    expected = host.astype(np.float64) @ x.astype(np.float64)  # small integers: exact in every type
    for start in range(4):
        arrays = []
        for part in (host.indptr, host.indices, host.data):
            room = torch.zeros(len(part) + start, dtype=torch.from_numpy(part).dtype, device="cuda")
            room[start:] = to_torch(part)
            arrays.append(room[start:])
        plan = wl.plan(wl.CSR(*arrays, shape), "spmv", device="cuda", select=CANDIDATE)
        for array in arrays:
            array.zero_()
        np.testing.assert_array_equal(plan @ x, expected)


@pytest.mark.parametrize("library", [to_torch, to_cupy])
def test_other_integers_are_read_in_host_memory(matrix, library):
    A = wl.CSR(*arrays_of(matrix, library, np.int32, np.int16), matrix.shape)
    assert device_arrays(A) is None
    np.testing.assert_array_equal(as_csr(A).indices, matrix.indices)
    x = np.ones(200, np.float32)
    np.testing.assert_allclose(wl.spmv(A, x, candidate=CANDIDATE, device="cuda"), matrix @ x, rtol=1e-4)


def test_memory_comes_from_the_library_of_the_values(matrix):
    torch = pytest.importorskip("torch")
    A = wl.CSR(*arrays_of(matrix, to_torch), matrix.shape)
    before = torch.cuda.memory_allocated()
    plan = wl.plan(A, "spmv", device="cuda", select=CANDIDATE)
    assert torch.cuda.memory_allocated() - before >= plan.nbytes


def test_on_the_current_stream(matrix, stays_on_gpu):
    torch = pytest.importorskip("torch")
    indptr, indices, data = arrays_of(matrix, to_torch)
    right = indptr.clone()
    indptr.zero_()
    A = wl.CSR(indptr, indices, data, matrix.shape)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(50_000_000)
        indptr.copy_(right)
        assert features.spmv(A)["nnz"] == matrix.nnz  # there are none on any other stream


def test_jax(matrix, stays_on_gpu):
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU")
    A = wl.CSR(*arrays_of(matrix, jax.numpy.asarray), matrix.shape)
    x = np.ones(200, np.float32)
    np.testing.assert_allclose(wl.spmv(A, x, candidate=CANDIDATE, device="cuda"), matrix @ x, rtol=1e-4)


# What is wrong with a matrix is said in the same words as in host memory.

SOUND = {
    "indptr": np.array([0, 2, 2, 5, 6]),
    "indices": np.array([3, 0, 4, 1, 1, 2]),
    "data": np.ones(6, np.float32),
}
MALFORMED = [
    ("indptr", [1, 2, 2, 5, 6], 0),
    ("indptr", [0, 2, 1, 5, 6], 2),
    ("indptr", [0, 2, 2, 5, 7], 4),
    ("indices", [3, 0, 4, 5, 1, 9], 3),
    ("indices", [3, -1, 4, 1, 1, 2], 1),
    ("data", [1, 2, 3, 4], 4),
]


@pytest.mark.parametrize("library", [to_torch, to_cupy])
@pytest.mark.parametrize("integer", [np.int32, np.int64])
@pytest.mark.parametrize(("name", "array", "position"), MALFORMED)
def test_contents(library, integer, name, array, position, stays_on_gpu):
    arrays = {**SOUND, name: np.array(array)}
    arrays = {key: array.astype(np.float32 if key == "data" else integer) for key, array in arrays.items()}
    with pytest.raises(errors.InvalidMatrixError, match=name) as on_host:
        as_csr(wl.CSR(**arrays, shape=(4, 5)))
    A = wl.CSR(**{key: library(array) for key, array in arrays.items()}, shape=(4, 5))
    with pytest.raises(errors.InvalidMatrixError, match=name) as on_gpu:
        wl.plan(A, "spmv", device="cuda", select=CANDIDATE)
    assert (on_gpu.value.argument, on_gpu.value.position) == (name, position)
    assert str(on_gpu.value) == str(on_host.value)


@pytest.mark.parametrize("elsewhere", NAMES)
def test_arrays_on_different_devices(elsewhere):
    arrays = {name: array if name == elsewhere else to_torch(array) for name, array in SOUND.items()}
    first = "indices" if elsewhere == "indptr" else elsewhere  # the first that is not where indptr is
    with pytest.raises(errors.DeviceError, match=f"{first} is .* but indptr is") as caught:
        wl.CSR(**arrays, shape=(4, 5))
    assert caught.value.argument == first


def test_arrays_on_different_gpus():
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    arrays = {name: to_torch(array, "cuda:0") for name, array in SOUND.items()}
    arrays["data"] = arrays["data"].to("cuda:1")
    with pytest.raises(errors.DeviceError, match="data is on GPU 1 but indptr is on GPU 0") as caught:
        wl.CSR(**arrays, shape=(4, 5))
    assert caught.value.argument == "data"


def test_bfloat16_of_tensors():
    torch = pytest.importorskip("torch")
    arrays = {name: to_torch(array) for name, array in SOUND.items()}
    arrays["data"] = arrays["data"].to(torch.bfloat16)
    A = wl.CSR(**arrays, shape=(4, 5))
    x = torch.ones(5, dtype=torch.bfloat16, device="cuda")
    y = wl.plan(A, "spmv", device="cuda", select="spmv/none/csr/vector") @ x
    assert y.dtype == torch.bfloat16
    wide = wl.CSR(arrays["indptr"], arrays["indices"], arrays["data"].float(), (4, 5))
    expected = wl.plan(wide, "spmv", device="cuda", select="spmv/none/csr/vector") @ x.float()
    assert torch.equal(y, expected.to(torch.bfloat16))
