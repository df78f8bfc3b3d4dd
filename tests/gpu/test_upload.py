"""Host matrices arrive on the GPU as they are, whatever their sizes and however many threads upload."""

import concurrent.futures

import numpy as np
import pytest

import warploom as wl
from warploom import _core
from warploom._matrix import compressed

BUFFER = 1 << 20  # bytes of a page-locked buffer


def matrix(num_rows, nnz, dtype=np.float32, seed=0):
    """Return arrays in which every entry differs from its neighbours."""
    rng = np.random.default_rng(seed)
    indptr = np.sort(rng.integers(0, nnz + 1, size=num_rows + 1))
    indptr[0], indptr[-1] = 0, nnz
    indices = rng.integers(0, 2**31 - 1, size=nnz, dtype=np.int32)
    return compressed(indptr, indices, rng.integers(-2000, 2000, size=nnz).astype(dtype), (num_rows, 2**31 - 1))


def check(view):
    """Compare what arrived: rows, which row offsets give, columns and values; and the statistics of rows."""
    resident = _core.Problem(view, "spmv", 1, "column", "warm", 0).resident()
    found = _core.convert_on_gpu("coo", resident, {}).arrays()
    expected = _core.store("coo", view, {}).arrays()
    assert list(found) == list(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, name)
    host = _core.compute_features("spmv", view)
    np.testing.assert_allclose(_core.compute_features_device("spmv", resident), host, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("nnz", [0, 1, 63, 100_000, BUFFER // 4 - 1, BUFFER // 4, BUFFER // 4 + 1, 3_000_001])
@pytest.mark.parametrize("num_rows", [1, 1000, BUFFER // 4 - 1, BUFFER // 4, 2_000_000])
def test_sizes(num_rows, nnz, dtype):
    check(matrix(num_rows, nnz, dtype))


@pytest.fixture
def restored_threads():
    before = wl.num_threads()
    yield
    wl.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
def test_threads_that_fill_buffers(threads, restored_threads):
    wl.set_num_threads(threads)
    check(matrix(700_000, 5_000_000))


def test_uploads_at_the_same_time():
    views = [matrix(10**size, 3 * 10**size, seed=size) for size in (2, 3, 4, 5, 6)] * 4
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(check, views))


def test_arrays_may_change_once_they_have_arrived():
    view = matrix(100_000, 2_000_000)
    expected = view.data.copy()
    resident = _core.Problem(view, "spmv", 1, "column", "warm", 0).resident()
    view.data[:] = -1
    np.testing.assert_array_equal(_core.convert_on_gpu("coo", resident, {}).arrays()["data"], expected)
