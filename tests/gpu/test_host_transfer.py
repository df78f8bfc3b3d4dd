"""Matrices and operands travel to the GPU and back as they are, whatever their sizes and however many threads copy."""

import concurrent.futures

import numpy as np
import pytest
from scipy.sparse import csr_array, diags_array

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


# ----- Operands -----


def scaled(size):
    """Return a matrix that scales each row by a small number, and these numbers."""
    factors = np.arange(size) % 5 - 2.0
    return csr_array(diags_array(factors)), factors[:, None]


def operand(shape, seed=0):
    """Return small integers, so that products are exact."""
    return np.random.default_rng(seed).integers(-1000, 1000, shape).astype(np.float32)


@pytest.mark.parametrize("threads", [1, 2, 5, 16])
@pytest.mark.parametrize("layout", ["row", "column"])
def test_large_operands(layout, threads, restored_threads):
    """Below and above what is kept for small ones, pieces of a buffer, whole buffers, and all buffers."""
    wl.set_num_threads(threads)
    A, factors = scaled(BUFFER // 4)
    plan = wl.plan(A.astype(np.float32), k=4, layout=layout, device="cuda", select="spmm/none/csr/row_split")
    for k in (1, 2, 3, 5, 16, 17, 33, 1):
        B = np.asarray(operand((BUFFER // 4, k), k), order="C" if layout == "row" else "F")
        before = B.copy()
        C = plan @ B
        np.testing.assert_array_equal(C, factors * B)
        np.testing.assert_array_equal(B, before)
        B[:] = 0  # nothing reads it any more
        np.testing.assert_array_equal(plan(B, out=C), 0)


@pytest.mark.parametrize("layout", ["row", "column"])
def test_large_results_within_larger_arrays(layout):
    A, factors = scaled(100_000)
    plan = wl.plan(A.astype(np.float32), k=8, layout=layout, device="cuda", select="spmm/none/csr/row_split")
    B = np.asarray(operand((100_000, 8)), order="C" if layout == "row" else "F")
    held = np.full((100_002, 11), 7, np.float32, order="C" if layout == "row" else "F")
    inner = held[1:-1, 2:-1]
    plan(B, out=inner)
    np.testing.assert_array_equal(inner, factors * B)
    plan(B, out=inner, alpha=2, beta=-1)
    np.testing.assert_array_equal(inner, factors * B)
    inner[:] = 7
    assert (held == 7).all()


def test_large_operands_of_several_threads():
    A, factors = scaled(BUFFER // 4)
    plans = [
        wl.plan(A.astype(np.float32), k=4, device="cuda", select=f"spmm/none/{kernel}")
        for kernel in ("csr/row_split", "csr/nonzero_split", "segmented-csr/row_split")
    ]

    def multiply(i):
        B = operand((BUFFER // 4, 3 + i % 7), i)
        np.testing.assert_array_equal(plans[i % len(plans)] @ B, factors * B)

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(multiply, range(24)))


def test_large_values_are_updated():
    A, factors = scaled(3 * BUFFER)
    plan = wl.plan(A.astype(np.float32), "spmv", device="cuda", updatable=True, select="spmv/none/csr/vector")
    x = operand(3 * BUFFER)
    for factor in (3, -1):
        plan.update_values(factor * A.data.astype(np.float32))
        np.testing.assert_array_equal(plan @ x, factor * factors[:, 0] * x)


@pytest.mark.parametrize("size", [BUFFER // 4 - 1, BUFFER, 3 * BUFFER + 1])
def test_page_locked_operands(size):
    """The bus reads and writes them by itself."""
    torch = pytest.importorskip("torch")
    A, factors = scaled(size)
    plan = wl.plan(A.astype(np.float32), "spmv", device="cuda", select="spmv/none/csr/vector")
    x = torch.empty(size, pin_memory=True).numpy()
    y = torch.empty(size, pin_memory=True).numpy()
    for seed in (0, 1):
        x[:] = operand(size, seed)
        plan(x, out=y)
        np.testing.assert_array_equal(y, factors[:, 0] * x)
        np.testing.assert_array_equal(plan @ x, y)


@pytest.mark.parametrize("locked", [slice(None, BUFFER), slice(BUFFER, None)])
def test_operands_of_which_a_part_is_page_locked(locked):
    torch = pytest.importorskip("torch")
    A, factors = scaled(2 * BUFFER)
    plan = wl.plan(A.astype(np.float32), "spmv", device="cuda", select="spmv/none/csr/vector")
    x, y = operand(2 * BUFFER), np.empty(2 * BUFFER, np.float32)
    parts = [x[locked], y[locked]]
    for part in parts:
        assert torch.cuda.cudart().cudaHostRegister(part.ctypes.data, part.nbytes, 0) == 0
    try:
        plan(x, out=y)
        np.testing.assert_array_equal(y, factors[:, 0] * x)
    finally:
        for part in parts:
            torch.cuda.cudart().cudaHostUnregister(part.ctypes.data)
