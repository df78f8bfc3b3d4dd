"""Matrices multiplied as dense ones: operands of all kinds, captures, threads, and what is not finite in B."""

import concurrent.futures
import math

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import warploom as wl
from battery import typed
from products import ORDER, assert_product, operand, tensor_of, widened
from warploom import _bfloat16, _core, _device
from warploom.candidates import kernels

torch = pytest.importorskip("torch")
from capturing import capture  # noqa: E402

pytestmark = pytest.mark.skipif(bool(_device.load_cublas()), reason="no cuBLAS")
KERNELS = [
    pytest.param(kernel, layout, dtype, id=f"{kernel.name}-{layout}-{dtype}")
    for kernel in kernels("spmm")
    if kernel.format == "dense"
    for layout in kernel.layouts
    for dtype in kernel.dtypes
]


def pruned(dtype, shape=(1000, 4104), density=0.1):
    """Few rows and many columns, so that rows are split and their sums go through the workspace."""
    matrix = random_array(shape, density=density, rng=np.random.default_rng(0), format="csr")
    matrix.data = np.random.default_rng(1).standard_normal(matrix.nnz)
    return typed(csr_array(matrix), _bfloat16.as_dtype(dtype))


def planned(A, kernel, layout, k, **options):
    return wl.plan(A, k=k, layout=layout, device="cuda", select=f"spmm/none/dense/{kernel.name}", **options)


def on_gpu(array, layout):
    """Return a tensor on the GPU in this layout."""
    tensor = tensor_of(np.ascontiguousarray(array)).cuda()
    return tensor if layout == "row" else tensor.t().contiguous().t()


def as_host(tensor, layout):
    return np.array(_bfloat16.of_tensor(tensor.cpu().contiguous()), order=ORDER[layout])


@pytest.mark.parametrize(("kernel", "layout", "dtype"), KERNELS)
def test_many_columns(kernel, layout, dtype):
    A = pruned(dtype)
    for k in (32, 128, 512):
        B = operand((A.shape[1], k), A.data.dtype, layout)
        plan = planned(A, kernel, layout, k)
        there = on_gpu(B, layout)
        results = [as_host(plan @ there, layout) for _ in range(3)]
        assert_product(A, B, results[0], precision=kernel.precision)
        assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()


@pytest.fixture(params=["always", "never"])
def copies(request):
    _core.make_padded_copies(request.param)
    yield
    _core.make_padded_copies()


@pytest.mark.parametrize("shape", [(300, 500), (301, 503)], ids=str)
@pytest.mark.parametrize(("kernel", "layout", "dtype"), KERNELS)
def test_operands_between_others(kernel, layout, dtype, shape, copies):
    """Neither aligned nor without gaps, of other sizes than the plan was made for: what lies around C stays."""
    A = pruned(dtype, shape)
    plan = planned(A, kernel, layout, 64)
    m, n = A.shape
    for k in (1, 33, 64, 100):
        for first in (0, 1, 3, 8):
            around_b = operand((n + 5, k + 11) if layout == "column" else (n, k + 11), A.data.dtype, layout)
            around_c = operand((m + 5, k + 11) if layout == "column" else (m, k + 11), A.data.dtype, layout, seed=3)
            cut = out = (slice(None), slice(first, first + k))
            if layout == "column":
                cut, out = ((slice(first % 5, first % 5 + size), slice(0, k)) for size in (n, m))
            b, c = on_gpu(around_b, layout), on_gpu(around_c, layout)
            plan(b[cut], out=c[out])
            found = as_host(c, layout)
            assert_product(A, around_b[cut], found[out], precision=kernel.precision)
            found[out] = around_c[out]
            assert found.tobytes() == around_c.tobytes()


@pytest.mark.parametrize(("kernel", "layout", "dtype"), KERNELS)
def test_scaled_and_added(kernel, layout, dtype, copies):
    """C is read as well, and what a copy has beside it is not."""
    A = pruned(dtype, (301, 503))
    for k in (32, 33):
        plan = planned(A, kernel, layout, k)
        B, C = (operand((size, k), A.data.dtype, layout, seed=size) for size in (503, 301))
        b, c = on_gpu(B, layout), on_gpu(C, layout)
        for values in (b, c):
            values[0, k - 1] = math.inf
        plan(b, out=c, alpha=2.0, beta=-0.5)
        found = tensor_of(np.ascontiguousarray(as_host(c, layout))).double()
        assert not torch.isfinite(found[:, k - 1]).any()
        dense = torch.from_numpy(csr_array((widened(A.data), A.indices, A.indptr), shape=A.shape).toarray()).double()
        expected = 2 * dense @ torch.from_numpy(widened(B)).double() - torch.from_numpy(widened(C)).double() / 2
        atol = {"float64": 1e-12, "float32": 1e-1 if kernel.precision == "tf32" else 1e-4}.get(dtype, 0.3)
        torch.testing.assert_close(found[:, : k - 1], expected[:, : k - 1], rtol=1e-2, atol=atol)


@pytest.mark.parametrize("size", [1600, 1601])
@pytest.mark.parametrize("k", [32, 513])
@pytest.mark.parametrize(("kernel", "layout", "dtype"), KERNELS)
def test_copies_where_they_pay(kernel, layout, dtype, size, k):
    """With k = 513 copies are made of what does not begin on 16 bytes, with 32 they are not."""
    A = pruned(dtype, (size, size), 0.05)
    B = operand((size, k), A.data.dtype, layout)
    there = planned(A, kernel, layout, k) @ on_gpu(B, layout)
    assert_product(A, B, as_host(there, layout), precision=kernel.precision)


@pytest.mark.parametrize(("kernel", "layout", "dtype"), KERNELS)
@pytest.mark.parametrize(("shape", "k"), [((1000, 4104), 128), ((1601, 1601), 513)], ids=str)
def test_captured_in_a_graph(kernel, layout, dtype, shape, k):
    A = pruned(dtype, shape)
    plan = planned(A, kernel, layout, k)
    B = operand((A.shape[1], k), A.data.dtype, layout)
    b = on_gpu(np.zeros_like(B), layout)
    c = plan @ b
    torch.cuda.synchronize()
    with capture() as graph:
        plan(b, out=c)
    b.copy_(on_gpu(B, layout))
    graph.replay()
    torch.cuda.synchronize()
    assert_product(A, B, as_host(c, layout), precision=kernel.precision)


def test_several_threads_and_streams():
    """Each with a plan of its own; the handle of the library is shared."""
    A = pruned("float16")
    B = operand((A.shape[1], 128), A.data.dtype, "row")
    kernel = next(case.values[0] for case in KERNELS)
    expected = as_host(planned(A, kernel, "row", 128) @ on_gpu(B, "row"), "row")
    assert_product(A, B, expected)

    def work(_):
        with torch.cuda.stream(torch.cuda.Stream()):
            plan, b = planned(A, kernel, "row", 128), on_gpu(B, "row")
            found = [plan @ b for _ in range(50)]
            torch.cuda.current_stream().synchronize()
            return [as_host(c, "row").tobytes() == expected.tobytes() for c in found]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(same for results in pool.map(work, range(4)) for same in results)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_in_B_reaches_all_rows(value):
    A = csr_array(np.diag(np.arange(1.0, 9.0)).astype(np.float32))
    B = np.ones((8, 4), np.float32)
    B[2, 1] = value
    C = wl.plan(A, k=4, device="cuda", select="spmm/none/dense/cublas") @ B
    assert not np.isfinite(C[:, 1]).any()
    np.testing.assert_array_equal(C[:, [0, 2, 3]], np.arange(1.0, 9.0)[:, None] * np.ones((1, 3)))


def test_float32_is_not_rounded():
    """Values that TF32 does not have come back as they are."""
    fine = np.float32(1 + 2**-20)
    A = csr_array(np.eye(32, dtype=np.float32) * fine)
    for layout in ("row", "column"):
        B = np.asarray(np.eye(32, dtype=np.float32), order=ORDER[layout])
        C = wl.plan(A, k=32, layout=layout, device="cuda", select="spmm/none/dense/cublas") @ B
        np.testing.assert_array_equal(C, np.eye(32) * fine)
