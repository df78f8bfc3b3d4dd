"""The fast path of products on a GPU: torch, CuPy and host operands, streams, devices, and the staging memory."""

import contextlib
import gc
import pickle
import threading

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import warploom as wl
from capturing import capture
from products import ORDER, assert_product, operand

M, N, K = 300, 200, 32
PLANS = [
    ("row", "spmm/none/csr/row_split"),
    ("column", "spmm/none/csr/row_split"),
    ("column", "spmm/none/csr/c_stationary"),
]
SPMV = "spmv/none/csr/vector"


@pytest.fixture(scope="module")
def matrix():
    values = random_array((M, N), density=0.1, rng=np.random.default_rng(0), format="csr")
    return csr_array(values).astype(np.float32)


@pytest.fixture
def torch():
    return pytest.importorskip("torch", minversion="2.10")


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


def make(matrix, layout="row", **options):
    return wl.plan(
        matrix, **{"k": K, "layout": layout, "device": "cuda", "select": "spmm/none/csr/row_split"} | options
    )


def make_spmv(matrix, **options):
    return wl.plan(matrix, "spmv", **{"device": "cuda", "select": SPMV} | options)


def host(array):
    return array.get() if hasattr(array, "get") else np.asarray(getattr(array, "cpu", lambda: array)())


def described(array):
    """Everything about a result but its values; a dimension of one element may have any stride."""
    strides = array.stride() if hasattr(array, "stride") else array.strides
    kept = [stride for stride, size in zip(strides, array.shape, strict=True) if size > 1]
    return type(array), array.dtype, tuple(array.shape), kept, array.device


def assert_taken(plan, B, out=None):
    """The fast path multiplies, with the result of the complete path."""
    complete = plan._multiply(B, out)
    expected = host(complete).copy()
    if out is not None:
        out[...] = 7
    result = plan._fast_path(B, out)
    assert result is not NotImplemented
    if out is None:
        assert described(result) == described(complete)
        np.testing.assert_array_equal(host(plan @ B), expected)
    else:
        assert result is out
    np.testing.assert_array_equal(host(result), expected)
    return result


def refused(kind, argument, plan, *arguments):
    assert plan._fast_path(*arguments, *[None] * (2 - len(arguments))) is NotImplemented
    with pytest.raises(kind) as caught:
        plan(*arguments)
    assert caught.value.argument == argument


# ----- torch -----


@pytest.mark.parametrize(("layout", "name"), PLANS)
def test_torch_operands_are_taken(torch, matrix, layout, name):
    plan = make(matrix, layout, select=name)

    def in_layout(rows, columns):
        return (
            torch.randn(rows, columns, device="cuda")
            if layout == "row"
            else torch.randn(columns, rows, device="cuda").t()
        )

    for k in (K, 3, 1):
        for B in (in_layout(N, k), in_layout(N + 3, k + 5)[1 : N + 1, 2 : k + 2]):
            C = assert_taken(plan, B)
            assert type(C) is torch.Tensor
            assert C.is_contiguous() if layout == "row" else C.t().is_contiguous()
            assert not C.requires_grad
            assert C.untyped_storage().resizable()  # memory of torch's own allocator
            assert_product(matrix, host(B), host(C))
            room = in_layout(M + 2, k + 3).fill_(7)
            assert_taken(plan, B, room[1 : M + 1, 2 : k + 2])
            room[1 : M + 1, 2 : k + 2] = 7
            assert (room == 7).all()
    x = torch.randn(N, device="cuda")
    y = assert_taken(plan, x)
    assert y.shape == (M,)
    assert_taken(plan, x, torch.empty(M, device="cuda"))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_torch_spmv(torch, matrix, dtype):
    plan = make_spmv(matrix, dtype=dtype)
    x = torch.linspace(-1, 1, N, device="cuda", dtype=getattr(torch, dtype))
    y = assert_taken(plan, x)
    assert_taken(plan, x, torch.empty_like(y))
    assert_taken(plan, x[:, None])


def test_odd_torch_operands_are_left(torch, matrix):
    plan = make(matrix)
    B = torch.randn(N, K, device="cuda")
    out = torch.empty(M, K, device="cuda")
    minus = torch._neg_view(B)
    assert minus.is_contiguous()
    for odd in (minus, torch.nn.Parameter(B.clone(), requires_grad=False), B.t().contiguous().t(), B[:, ::2], B[:, :0]):
        assert plan._fast_path(odd, None) is NotImplemented
        assert_product(matrix, host(odd.detach().resolve_neg()), host(plan @ odd))
    refused(wl.errors.ParameterError, "B", plan, B.clone().requires_grad_())
    refused(wl.errors.DtypeError, "B", plan, B.to_sparse())
    assert plan._fast_path(B.half(), None) is NotImplemented
    assert_product(matrix, host(B.half()).astype(np.float32), host(plan @ B.half()))  # promoted
    refused(wl.errors.ShapeError, "B", plan, B[:-1])
    refused(wl.errors.ShapeError, "out", plan, B, out[:-1])
    refused(wl.errors.ShapeError, "out", plan, B, torch._neg_view(out))
    refused(wl.errors.DeviceError, "out", plan, B, out.cpu())
    refused(wl.errors.DeviceError, "out", plan, B.cpu(), out)
    both = torch.randn(M, 2 * K, device="cuda")
    refused(wl.errors.ParameterError, "out", plan, both[:N, :K], both[:, K // 2 : K // 2 + K])
    square = make(csr_array(np.eye(N, dtype=np.float32)))
    refused(wl.errors.ParameterError, "out", square, B, B)
    on_cpu = make(matrix, device="cpu")
    refused(wl.errors.DeviceError, "B", on_cpu, B)


def test_the_current_stream_of_torch(torch, matrix):
    for plan, B in (
        (make(matrix), torch.randn(N, K, device="cuda")),
        (make_spmv(matrix), torch.randn(N, device="cuda")),
    ):
        expected = host(plan @ (B * 2))
        into = torch.empty_like(plan @ B)
        stream = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            plan @ (B * 2)  # memory for this stream, so that none needs to be allocated behind the delay
            stream.synchronize()
            torch.cuda._sleep(100_000_000)
            late = B * 2
            C = plan._fast_path(late, None)  # would read `late` too early on any other stream
            assert plan._fast_path(late, into) is into
            assert not stream.query()  # enqueued, not waited for
        stream.synchronize()
        np.testing.assert_array_equal(host(C), expected)
        np.testing.assert_array_equal(host(into), expected)


def test_a_graph_of_torch_is_captured_on_the_fast_path(torch, matrix):
    plan = make_spmv(matrix)
    x, y = torch.randn(N, device="cuda"), torch.empty(M, device="cuda")
    plan(x, out=y)
    with capture() as graph:
        assert plan._fast_path(x, y) is y
    x.copy_(torch.randn(N, device="cuda"))
    graph.replay()
    torch.cuda.synchronize()
    np.testing.assert_array_equal(host(y), host(plan @ x))


# ----- CuPy -----


@pytest.mark.parametrize(("layout", "name"), PLANS)
def test_cupy_operands_are_taken(cupy, matrix, layout, name):
    plan = make(matrix, layout, select=name)

    def in_layout(rows, columns):
        return cupy.asarray(operand((rows, columns), np.float32, layout), order=ORDER[layout])

    for k in (K, 3, 1):
        for B in (in_layout(N, k), in_layout(N + 3, k + 5)[1 : N + 1, 2 : k + 2]):
            C = assert_taken(plan, B)
            assert type(C) is cupy.ndarray
            assert C.flags.c_contiguous if layout == "row" else C.flags.f_contiguous
            assert_product(matrix, B.get(), C.get())
            room = in_layout(M + 2, k + 3)
            room[...] = 7
            assert_taken(plan, B, room[1 : M + 1, 2 : k + 2])
            room[1 : M + 1, 2 : k + 2] = 7
            assert bool((room == 7).all())
    x = in_layout(N, 1)[:, 0].copy()
    assert assert_taken(plan, x).shape == (M,)
    assert_taken(plan, x, cupy.empty(M, np.float32))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_cupy_spmv(cupy, matrix, dtype):
    plan = make_spmv(matrix, dtype=np.dtype(dtype).name)
    x = cupy.asarray(operand((N, 1), dtype, "row"))[:, 0].copy()
    y = assert_taken(plan, x)
    assert_taken(plan, x, cupy.empty_like(y))


def test_odd_cupy_operands_are_left(cupy, matrix):
    plan = make(matrix)
    B = cupy.asarray(operand((N, K), np.float32, "row"))
    out = cupy.empty((M, K), np.float32)
    for odd in (cupy.asfortranarray(B), B[:, ::2], B[:, :0], cupy.broadcast_to(B[:1], (N, K)), B[::-1]):
        assert plan._fast_path(odd, None) is NotImplemented
        assert_product(matrix, odd.get(), (plan @ odd).get())
    refused(wl.errors.DtypeError, "B", plan, B.astype(np.float64))
    refused(wl.errors.DtypeError, "B", plan, B.astype(np.int32))
    refused(wl.errors.ShapeError, "B", plan, B[:-1])
    refused(wl.errors.ShapeError, "B", plan, B[None])
    refused(wl.errors.ShapeError, "out", plan, B, out[:, :-1])
    refused(wl.errors.ShapeError, "out", plan, B, cupy.asfortranarray(out))
    refused(wl.errors.DeviceError, "out", plan, B, out.get())
    square = make(csr_array(np.eye(N, dtype=np.float32)))
    refused(wl.errors.ParameterError, "out", square, B, B)
    refused(wl.errors.DeviceError, "B", make(matrix, device="cpu"), B)


def test_the_current_stream_of_cupy(cupy, matrix):
    for plan, B in (
        (make(matrix), cupy.asarray(operand((N, K), np.float32, "row"))),
        (make_spmv(matrix), cupy.asarray(operand((N, 1), np.float32, "row"))[:, 0].copy()),
    ):
        expected = (plan @ (B * 2)).get()
        into = cupy.empty_like(plan @ B)
        large = cupy.zeros(1 << 27, np.float32)
        stream = cupy.cuda.Stream(non_blocking=True)
        cupy.cuda.Device().synchronize()
        with stream:
            plan @ (B * 2)  # memory for this stream, so that none needs to be allocated behind the delay
            stream.synchronize()
            for _ in range(100):  # some 20 ms
                large += 1
            late = B * 2
            C = plan._fast_path(late, None)  # would read `late` too early on any other stream
            assert plan._fast_path(late, into) is into
            assert not stream.done  # enqueued, not waited for
        stream.synchronize()
        np.testing.assert_array_equal(C.get(), expected)
        np.testing.assert_array_equal(into.get(), expected)


def test_frameworks_mixed(torch, cupy, matrix):
    plan = make(matrix)
    B = torch.randn(N, K, device="cuda")
    out = cupy.empty((M, K), np.float32)
    assert plan._fast_path(B, out) is NotImplemented
    torch.cuda.synchronize()
    assert plan(B, out=out) is out
    np.testing.assert_array_equal(out.get(), host(plan @ B))


# ----- Another device is current -----


@contextlib.contextmanager
def current(cupy_or_torch, number):
    if cupy_or_torch.__name__ == "cupy":
        with cupy_or_torch.cuda.Device(number):
            yield
    else:
        with cupy_or_torch.cuda.device(number):
            yield


def test_a_plan_of_another_than_the_current_gpu(matrix):
    if len(wl._core.cuda_info()["devices"]) < 2:
        pytest.skip("one GPU")
    x = operand((N, 1), np.float32, "row")[:, 0].copy()
    for name in ("torch", "cupy"):
        try:
            framework = __import__(name)
        except ImportError:
            continue

        def put(values, framework=framework, name=name):
            return framework.asarray(values) if name == "cupy" else framework.from_numpy(values).cuda()

        for number in (0, 1):
            plan = make_spmv(matrix, device=f"cuda:{number}")
            with current(framework, number):
                here, out = put(x), put(np.zeros(M, np.float32))
            with current(framework, 1 - number):
                elsewhere = put(x)
                y = plan @ here
                assert plan(here, out=out) is out
                np.testing.assert_array_equal(plan @ x, host(y))
                refused(wl.errors.DeviceError, "B", plan, elsewhere)
            assert described(y)[-1] == described(here)[-1]
            np.testing.assert_array_equal(host(y), host(plan @ here))
            np.testing.assert_array_equal(host(out), host(y))


# ----- Operands in host memory -----


@pytest.mark.parametrize("layout", ["row", "column"])
def test_host_operands_of_growing_and_shrinking_size(matrix, layout):
    """The staging memory grows up to 1 MiB an operand; larger ones do without it."""
    plan = make(matrix, layout)
    for k in (1, 3, 40, 7, 800, 1400, 5, 2000, 1):
        B = operand((N, k), np.float32, layout)
        C = assert_taken_on_host(plan, B)
        assert_product(matrix, B, C)
        held = np.full((M + 2, k + 3), 7, np.float32, order=ORDER[layout])
        assert_product(matrix, B, plan(B, out=held[1 : M + 1, 2 : k + 2]))
        held[1 : M + 1, 2 : k + 2] = 7
        assert (held == 7).all()
    assert (plan @ np.empty((N, 0), np.float32)).shape == (M, 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("op", "k", "layout"), [("spmv", 1, "row"), ("spmm", 8, "row"), ("spmm", 8, "column")])
def test_small_operands_of_the_host_stay_there(op, k, layout, dtype):
    """Whatever is asked of the product; those in GPU memory, and those of a candidate that is named, do not."""
    A = csr_array(random_array((M, M), density=0.02, rng=np.random.default_rng(1), format="csr")).astype(dtype)
    B = operand((M, k), dtype, layout) if op == "spmm" else operand((M, 1), dtype, "column")[:, 0]
    plan = wl.plan(A, op, k=k if op == "spmm" else None, layout=layout, device="cuda")
    assert plan._core.multiplies_on_host(k)
    assert not plan._core.multiplies_on_host(1 << 14)
    assert "multiplied there" in str(plan.explain())
    C = assert_taken_on_host(plan, B)
    check(A, B, C)
    out = np.full(C.shape, np.nan, dtype, order=ORDER[layout])
    assert plan(B, out=out) is out
    np.testing.assert_array_equal(out, C)
    finished = plan(B, out=out, alpha=2, beta=-1, activation="relu")
    np.testing.assert_allclose(finished, np.maximum(C, 0), rtol=1e-5, atol=1e-6)
    restored = pickle.loads(pickle.dumps(plan))
    assert restored._core.multiplies_on_host(k)
    np.testing.assert_array_equal(restored @ B, C)
    named = wl.plan(A, op, k=k if op == "spmm" else None, layout=layout, device="cuda", select=plan.candidate)
    assert not named._core.multiplies_on_host(k)
    assert not pickle.loads(pickle.dumps(named))._core.multiplies_on_host(k)
    check(A, B, named @ B)


def check(A, B, C):
    """`assert_product` of vectors, too."""
    assert_product(A, B.reshape(len(B), -1), C.reshape(len(C), -1))


def test_values_of_small_matrices_are_updated_where_they_are(matrix):
    plan = wl.plan(matrix, "spmv", device="cuda", updatable=True)
    assert not plan._core.multiplies_on_host(1)
    x = operand((N, 1), np.float32, "column")[:, 0]
    plan.update_values(2 * matrix.data)
    check(2 * matrix, x, plan @ x)


def test_a_matrix_that_changes_does_not_change_its_plan(matrix):
    """Products of operands in host memory have a copy of it."""
    A = matrix.copy()
    plan = wl.plan(A, "spmv", device="cuda")
    x = operand((N, 1), np.float32, "column")[:, 0]
    before = plan @ x
    A.data[:] = 7
    np.testing.assert_array_equal(plan @ x, before)


def assert_taken_on_host(plan, B):
    result = plan._fast_path(B, None)
    assert type(result) is type(B)
    np.testing.assert_array_equal(result, plan._multiply(B, None))
    return result


def test_torch_tensors_of_the_host(torch, matrix):
    plan = make(matrix)
    B = torch.randn(N, K)
    C = plan._fast_path(B, None)
    assert C.device.type == "cpu"
    assert_product(matrix, B.numpy(), C.numpy())


def test_threads_share_the_staging_memory(matrix):
    plan = make(matrix)
    operands = [operand((N, k), np.float32, "row", seed=k) for k in (1, 8, 64, 1000, 2000)]
    expected = [plan @ B for B in operands]
    wrong = []

    def multiply(i):
        for _ in range(100):
            if not np.array_equal(plan @ operands[i], expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=multiply, args=(i,)) for i in range(len(operands))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_staging_memory_is_freed_with_the_plan(torch, matrix):
    B = operand((N, 800), np.float32, "row")

    def free_after(plans):
        for _ in range(plans):
            make(matrix) @ B
        gc.collect()
        torch.cuda.synchronize()
        return torch.cuda.mem_get_info()[0]

    before = free_after(3)
    assert free_after(200) > before - (64 << 20)
