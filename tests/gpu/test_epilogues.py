"""Epilogues and dot products on the GPU: every kernel and type against float64, in one launch or in several."""

import functools
import itertools

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse import csr_array, random_array

import warploom as wl
from battery import battery, typed
from capturing import capture
from products import ORDER, magnitudes, operand, permutations_of, prepare_product, prepare_spmv, tensor_of, widened
from warploom import _bfloat16, _core, _device
from warploom._matrix import as_csr
from warploom.candidates import Candidate, kernels

SPMM = [
    pytest.param(k, order, _bfloat16.as_dtype(dtype), id=f"{k.format}-{k.name}-{order}-{dtype}")
    for k in kernels("spmm")
    for order in k.layouts
    for dtype in k.dtypes
]
SPMV = [
    pytest.param(k, _bfloat16.as_dtype(dtype), id=f"{k.format}-{k.name}-{dtype}")
    for k in kernels("spmv")
    for dtype in k.dtypes
]
# alpha, beta, bias, ReLU
EPILOGUES = [(1.0, 0.0, True, True), (-0.5, 0.0, False, False), (2.0, -0.5, True, False), (1.0, 1.0, True, True)]


@functools.cache
def power_law(dtype, m=6_000, n=5_000):
    """Rows of one to thousands of nonzeros: some are cut, and many warps take part."""
    rng = np.random.default_rng(5)
    lengths = np.minimum(n, (rng.pareto(1.2, m) * 4).astype(np.int64))
    lengths[rng.integers(0, m, 3)] = n
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = rng.integers(0, n, indptr[-1], dtype=np.int32)
    matrix = csr_array((np.ones(indptr[-1]), indices, indptr), shape=(m, n))
    matrix.sum_duplicates()
    matrix.data = rng.uniform(-1, 1, matrix.nnz)
    return typed(matrix, dtype)


@functools.cache
def stencil(dtype, n=150):
    line = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    return typed(csr_array(scipy.sparse.kronsum(line, line, format="csr")), dtype)


def matrices(dtype):
    names = ("empty rows", "one giant row", "random wide", "random", "dense", "single entry")
    yield from (battery(dtype)[name] for name in names)
    yield power_law(dtype)


def loaded(kernel):
    if kernel.name == "cusparse" and (reason := _device.load_cusparse()):
        pytest.skip(f"no cuSPARSE: {reason}")


def assert_finished(matrix, B, C, before, by, bias, kernel, *, column):
    """Check an epilogue within the rounding of the sums, of what is added to them, and of products that are stored."""
    alpha, beta, _, relu = by
    product = csr_array((widened(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape) @ widened(B)
    scale = magnitudes(matrix) @ abs(widened(B))
    added = (widened(bias)[:, None] if column else widened(bias)) if bias is not None else np.zeros((1, 1))
    exact = alpha * product + (beta * widened(before) if beta else 0) + added
    half = B.dtype.itemsize == 2
    eps = np.finfo(np.float32 if half else B.dtype).eps
    parts = abs(alpha * product) + (abs(beta * widened(before)) if beta else 0) + abs(added)
    of_sums = _bfloat16.eps_of(B.dtype) if half and kernel.vendor else eps
    bound = abs(alpha) * of_sums * (np.diff(matrix.indptr)[:, None] + 2) * scale + 8 * eps * parts
    if kernel.precision == "tf32":
        bound = bound + abs(alpha) * (2 * 2.0**-11 + 2.0**-21) * scale
    if half:
        bound = bound + 2 * _bfloat16.eps_of(B.dtype) * parts + 4 * 2.0**-24
    expected = np.maximum(exact, 0) if relu else exact
    assert (abs(widened(C) - expected) <= bound).all()


def bits(array):
    return np.ascontiguousarray(array).view(np.uint8)


@pytest.mark.parametrize(("kernel", "order", "dtype"), SPMM)
def test_spmm(kernel, order, dtype):
    loaded(kernel)
    taken = 0
    for matrix in matrices(dtype):
        m, n = matrix.shape
        for k in (1, 8, 33, 64):
            problem = _core.Problem(as_csr(matrix), "spmm", k, order, "warm", 0)
            if problem.reason_against(Candidate.make(kernel, "none", None)):
                continue
            # Windows of two strips finish each by itself.
            settings = [None, {"vector_rows": 16}] if kernel.format == "column-vectors" else [None]
            for perm, setting in itertools.product(list(permutations_of(kernel, m))[-1:], settings):
                if problem.reason_against(Candidate.make(kernel, "none", setting)):
                    continue
                plan = prepare_product("spmm", as_csr(matrix), kernel.format, kernel.name, k, order, setting, perm, 0)
                B, bias = operand((n, k), dtype, order), operand((1, k), dtype, "row", seed=2)[0]
                for by, padding in zip(EPILOGUES, (0, 8, 3, 16), strict=True):
                    alpha, beta, adds, relu = by
                    shape = (m, k + padding) if order == "row" else (m + padding, k)
                    room = operand(shape, dtype, order, seed=3)
                    before = room.copy(ORDER[order])
                    C = room[:, :k] if order == "row" else room[:m]
                    if beta == 0:
                        C[...] = _bfloat16.cast(np.full((1, 1), np.nan), dtype)
                    plan.finish_host(B, C, alpha, beta, bias.ctypes.data if adds else 0, False, relu)
                    assert_finished(matrix, B, C, before[:m, :k], by, bias if adds else None, kernel, column=False)
                    rest = (room[:, k:], before[:, k:]) if order == "row" else (room[m:], before[m:])
                    np.testing.assert_array_equal(*map(bits, rest))
                    taken += 1
    assert taken or kernel.name == "cusparse"


@pytest.mark.parametrize(("kernel", "dtype"), SPMV)
def test_spmv(kernel, dtype):
    loaded(kernel)
    for matrix in (*matrices(dtype), stencil(dtype)):
        m, n = matrix.shape
        for perm in permutations_of(kernel, m):
            plan = prepare_spmv(matrix, kernel, perm=perm, device=0)
            if plan is None:
                continue
            x, bias = operand((n, 1), dtype, "column"), operand((m, 1), dtype, "column", seed=2)[:, 0].copy()
            for by in EPILOGUES:
                alpha, beta, adds, relu = by
                before = operand((m, 1), dtype, "column", seed=3)
                y = before.copy("F")
                if beta == 0:
                    y[...] = _bfloat16.cast(np.full((1, 1), np.nan), dtype)
                plan.finish_host(x, y, alpha, beta, bias.ctypes.data if adds else 0, True, relu)
                assert_finished(matrix, x, y, before, by, bias if adds else None, kernel, column=True)
            # A bias of one value, for the only column.
            y = before.copy("F")
            plan.finish_host(x, y, 1.0, 1.0, bias[:1].ctypes.data, False, True)
            assert_finished(matrix, x, y, before, (1.0, 1.0, True, True), bias[:1], kernel, column=False)


def dot_of(plan, x, y, dot):
    torch = pytest.importorskip("torch")
    n = x.shape[0]
    stream = torch.cuda.current_stream().cuda_stream
    plan.dot_device(x.data_ptr(), n, y.data_ptr(), n, dot.data_ptr(), stream)


def check_dot(matrix, kernel, dtype, parameters=None, perm=None):
    torch = pytest.importorskip("torch")
    plan = prepare_spmv(matrix, kernel, parameters, perm, device=0)
    if plan is None:
        return False
    n = matrix.shape[0]
    x = tensor_of(operand((n, 1), dtype, "column")[:, 0].copy()).cuda()
    y, z = torch.full_like(x, float("nan")), torch.full_like(x, float("nan"))
    kind = torch.float64 if x.dtype == torch.float64 else torch.float32
    dots = torch.full((3,), float("nan"), dtype=kind, device="cuda")
    plan.run_device(x.data_ptr(), n, z.data_ptr(), n, 1, torch.cuda.current_stream().cuda_stream)
    for i in range(3):  # the workspace is as the run before left it
        dot_of(plan, x, y, dots[i])
    if kernel.reproducible:
        assert torch.equal(y, z)
        assert torch.equal(dots, dots[:1].expand(3))
    products = x.double() * y.double()
    rounding = 1e-13 if kind == torch.float64 else 1e-6
    assert abs(dots[2].double() - products.sum()) <= rounding * products.abs().sum()
    return True


@pytest.mark.parametrize(("kernel", "dtype"), SPMV)
def test_dot_products(kernel, dtype):
    loaded(kernel)
    taken = 0
    for matrix in (stencil(dtype), power_law(dtype, 5_000, 5_000), battery(dtype)["diagonal"]):
        for perm in permutations_of(kernel, matrix.shape[0]):
            taken += check_dot(matrix, kernel, dtype, perm=perm)
    assert taken


@pytest.mark.parametrize(
    ("label", "parameters"),
    [
        ("csr/scalar", None),
        *(("csr/vector", {"threads_per_row": threads}) for threads in (2, 4, 8, 16, 32)),
        ("compressed-sell/vector", {"parts": 8}),
        ("compressed-sell/vector", None),
        ("packed-csr/segmented_sum", None),
        ("sell/vector", None),
    ],
)
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(np.float64)])
def test_dot_products_of_large_grids(label, parameters, dtype):
    """Many groups of thread blocks, or thread blocks that take many rows each."""
    kernel = next(k for k in kernels("spmv") if f"{k.format}/{k.name}" == label)
    assert check_dot(stencil(dtype, 900), kernel, dtype, parameters)


def test_dot_products_of_more_groups_than_a_thread_block_has_threads():
    kernel = next(k for k in kernels("spmv") if (k.format, k.name) == ("compressed-sell", "vector"))
    assert check_dot(stencil(np.dtype(np.float64), 1800), kernel, np.dtype(np.float64), {"parts": 8})


@pytest.mark.parametrize("threads", [2, 8, 32])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_csr_vector_of_permuted_rows(dtype, threads):
    """More rows than the thread blocks that take x . y have at once, in another order; y is read before the product."""
    dtype = _bfloat16.as_dtype(dtype)
    kernel = next(k for k in kernels("spmv") if (k.format, k.name) == ("csr", "vector"))
    rng = np.random.default_rng(4)
    lengths = rng.integers(0, 12, 300_000)
    lengths[rng.integers(0, 300_000, 5)] = 3000
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    pattern = (rng.uniform(-1, 1, indptr[-1]), rng.integers(0, 300_000, indptr[-1], dtype=np.int32), indptr)
    A = typed(csr_array(pattern, shape=(300_000, 300_000)), dtype)
    perm = rng.permutation(300_000).astype(np.int32)
    assert check_dot(A, kernel, dtype, {"threads_per_row": threads}, perm)
    plan = prepare_spmv(A, kernel, {"threads_per_row": threads}, perm, device=0)
    x, bias = operand((300_000, 1), dtype, "column"), operand((300_000, 1), dtype, "column", seed=2)[:, 0].copy()
    for by in EPILOGUES:
        before = operand((300_000, 1), dtype, "column", seed=3)
        y = before.copy("F")
        plan.finish_host(x, y, by[0], by[1], bias.ctypes.data if by[2] else 0, True, by[3])
        assert_finished(A, x, y, before, by, bias if by[2] else None, kernel, column=True)


# ----- a pass of its own -----


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("gap", [0, 1, 7])
@pytest.mark.parametrize("order", ["row", "column"])
def test_passes_over_results_that_start_anywhere(order, gap, first, dtype):
    """With and without something between lines, and with sizes that are no multiple of what a thread moves at once."""
    torch = pytest.importorskip("torch")
    dtype = _bfloat16.as_dtype(dtype)
    kernel = next(k for k in kernels("spmm") if (k.format, k.name) == ("csr", "row_split"))
    for m, k in ((301, 33), (301, 5), (3, 7), (1, 1)):
        A = typed(random_array((m, 200), density=0.2, rng=np.random.default_rng(0), format="csr"), dtype)
        B, bias = operand((200, k), dtype, order), operand((1, max(m, k)), dtype, "row", seed=2)[0]
        plan = prepare_product("spmm", as_csr(A), kernel.format, kernel.name, k, order, None, None, 0)
        lines, length = (m, k) if order == "row" else (k, m)
        for by in [*EPILOGUES, (0.0, -0.5, True, True)]:
            for by_row in (False, True):
                room = tensor_of(operand((1, first + lines * (length + gap)), dtype, "row", seed=3)[0]).cuda()
                before = room.clone()
                C = room[first:].view(lines, length + gap)[:, :length]
                old = before[first:].view(lines, length + gap)[:, :length]
                there, added = (tensor_of(part).cuda() for part in (B if order == "row" else B.T.copy(), bias))
                used = added[: m if by_row else k].clone()
                plan.finish_device(
                    there.data_ptr(),
                    k if order == "row" else 200,
                    C.data_ptr(),
                    length + gap,
                    k,
                    by[0],
                    by[1],
                    used.data_ptr() if by[2] else 0,
                    by_row,
                    by[3],
                    torch.cuda.current_stream().cuda_stream,
                )
                found, known = (part.double().cpu().numpy() for part in (C, old))
                product = csr_array((widened(A.data), A.indices, A.indptr), shape=A.shape) @ widened(B)
                expected = by[0] * product + by[1] * (known if order == "row" else known.T)
                if by[2]:
                    values = used.double().cpu().numpy()
                    expected = expected + (values[:, None] if by_row else values)
                expected = np.maximum(expected, 0) if by[3] else expected
                tolerance = {2: 0.06 if dtype == np.float16 else 0.5, 4: 1e-4, 8: 1e-12}[dtype.itemsize]
                np.testing.assert_allclose(found if order == "row" else found.T, expected, rtol=0, atol=tolerance)
                between = before.clone()
                between[first:].view(lines, length + gap)[:, :length] = C
                assert torch.equal(room.view(torch.uint8), between.view(torch.uint8))


# ----- one launch -----


@pytest.mark.parametrize("name", ["csr/row_split", "segmented-csr/row_split", "padded-csr/row_split", "dcsr/row_split"])
def test_sums_are_rounded_once_where_they_are_finished(name):
    """A bias that is added to a stored product is added to what was rounded before, which shows in float16."""
    torch = pytest.importorskip("torch")
    A = typed(random_array((500, 400), density=0.05, rng=np.random.default_rng(0), format="csr"), np.float16)
    for k, copies, fused in ((32, "never", True), (64, "never", True), (33, "never", True), (33, "always", False)):
        plan = wl.plan(A, k=k, device="cuda", select=f"spmm/none/{name}")
        B = torch.randn(400, k, device="cuda").half()
        bias = torch.randn(k, device="cuda").half()
        _core.make_padded_copies(copies)
        try:
            found, twice = plan(B, bias=bias), (plan @ B) + bias
        finally:
            _core.make_padded_copies()
        assert (not torch.equal(found, twice)) == fused
        torch.testing.assert_close(found, twice, rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize(
    "name",
    [
        "segmented-csr/row_split[segment_length=32]",
        "segmented-csr/row_split[segment_length=32,by_column=1]",
        "csr/nonzero_split[work=16]",
        "csr/nonzero_split[work=16,by_column=1]",
        "hybrid-vectors/tensor_core[segment_length=32]",
    ],
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_rows_of_many_pieces_are_finished(dtype, name):
    """Another kernel adds them up, and stores them."""
    if "tensor_core" in name and dtype in ("float32", "float64"):
        pytest.skip("in half precision")
    torch = pytest.importorskip("torch")
    kind = getattr(torch, dtype)
    rng = np.random.default_rng(0)
    A = random_array((300, 20_000), density=0.001, rng=rng, format="lil")
    A[7], A[299] = rng.uniform(-1, 1, (2, 20_000))
    A[16:24, rng.choice(20_000, 3000, replace=False)] = rng.uniform(-1, 1, (8, 3000))  # a window of vectors
    A = csr_array(A.tocsr()).astype(np.float32)
    values = torch.from_numpy(A.data).to(kind)
    A.data = values.to(torch.float32).numpy()
    plan = wl.plan(A, dtype=dtype, k=40, device="cuda", select=f"spmm/none/{name}")
    graphs = []  # kept: the end of one would end the next capture
    for k in (1, 33, 40, 72):
        B, C = (torch.rand(rows, k, device="cuda").sub(0.5).to(kind) for rows in (20_000, 300))
        bias = torch.rand(k, device="cuda").to(kind)
        b, c, added = (tensor.double().cpu().numpy() for tensor in (B, C, bias))
        product = A.astype(np.float64) @ b
        rounding = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "float64": 1e-12}[dtype]
        for alpha, beta, biased, relu in EPILOGUES:
            out = C.clone()
            plan(B, out=out, alpha=alpha, beta=beta, bias=bias if biased else None, activation="relu" if relu else None)
            expected = alpha * product + beta * c + (added if biased else 0)
            expected = np.maximum(expected, 0) if relu else expected
            np.testing.assert_allclose(out.double().cpu().numpy(), expected, rtol=rounding, atol=20 * rounding)
        torch.cuda.synchronize()
        with capture() as graph:
            plan(B, out=C)
        graphs.append(graph)
        C.zero_()
        graph.replay()
        torch.cuda.synchronize()
        np.testing.assert_allclose(C.double().cpu().numpy(), product, rtol=rounding, atol=20 * rounding)


def test_bits_do_not_depend_on_the_run():
    torch = pytest.importorskip("torch")
    A = power_law(np.float32)
    for name, order in (("segmented-csr/row_split", "row"), ("csr/row_split", "row"), ("csr/c_stationary", "column")):
        plan = wl.plan(A, k=32, layout=order, device="cuda", select=f"spmm/none/{name}")
        B, C = torch.randn(A.shape[1], 32, device="cuda"), torch.randn(A.shape[0], 32, device="cuda")
        if order == "column":
            B, C = (matrix.T.contiguous().T for matrix in (B, C))
        results = []
        for _ in range(3):
            out = C.clone()
            plan(B, out=out, alpha=0.5, beta=2.0, bias=B[0].clone(), activation="relu")
            results.append(out)
        assert all(torch.equal(result, results[0]) for result in results)


# ----- operands of the libraries -----

PLANS = {
    "spmv": {"op": "spmv", "select": "spmv/none/csr/vector"},
    "row": {"k": 32, "select": "spmm/none/csr/row_split"},
    "column": {"k": 32, "layout": "column", "select": "spmm/none/csr/c_stationary"},
    "operator": {},
}


@pytest.mark.parametrize("kind", PLANS)
def test_torch_and_cupy(kind):
    torch = pytest.importorskip("torch")
    A = csr_array(random_array((300, 200), density=0.1, rng=np.random.default_rng(0), format="csr"))
    plan = wl.plan(A, device="cuda", **PLANS[kind])
    for k in (None, 1, 32, 33):
        if kind == "spmv" and k is not None:
            continue
        rng = np.random.default_rng(1)
        B, C = (rng.standard_normal(rows if k is None else (rows, k)) for rows in (200, 300))
        if kind == "column" and k is not None:
            B, C = np.asfortranarray(B), np.asfortranarray(C)
        bias = rng.standard_normal(C.shape[-1])
        expected = np.maximum(2 * (A @ B) - C + bias, 0)
        libraries = [(lambda a: torch.from_numpy(a).cuda(), lambda a: a.cpu().numpy())]
        try:
            import cupy

            libraries.append((cupy.asarray, cupy.asnumpy))
        except ImportError:
            pass
        for there, back in libraries:
            b, out, added = there(B), there(C), there(bias)
            assert plan(b, out=out, alpha=2.0, beta=-1.0, bias=added, activation="relu") is out
            np.testing.assert_allclose(back(out), expected, rtol=1e-10, atol=1e-10)
            np.testing.assert_allclose(back(plan(b, bias=added)), A @ B + bias, rtol=1e-10, atol=1e-10)
            with pytest.raises(wl.errors.DeviceError) as caught:
                plan(b, bias=bias)
            assert caught.value.argument == "bias"


def test_dot_products_of_the_libraries():
    torch = pytest.importorskip("torch")
    A = stencil(np.float64)
    plan = wl.plan(A, device="cuda")
    x = np.random.default_rng(1).standard_normal(A.shape[0])
    expected = x @ (A @ x)
    y, dot = plan.product_and_dot(x)
    np.testing.assert_allclose(dot, expected)
    there = torch.from_numpy(x).cuda()
    y, dot = plan.product_and_dot(there)
    assert dot.is_cuda
    assert dot.shape == ()
    np.testing.assert_allclose(dot.item(), expected)
    out, value = torch.empty_like(y), torch.empty(1, dtype=torch.float64, device="cuda")
    assert plan.product_and_dot(there, out, value) == (out, value)
    assert torch.equal(out, y)
    assert value.item() == dot.item()
    with pytest.raises(wl.errors.DeviceError):
        plan.product_and_dot(there, None, value.cpu())
    cupy = pytest.importorskip("cupy")
    y, dot = plan.product_and_dot(cupy.asarray(x))
    assert isinstance(dot, cupy.ndarray)
    assert dot.shape == ()
    np.testing.assert_allclose(dot.get(), expected)


@pytest.mark.parametrize("name", ["csr/vector", "compressed-sell/vector", "packed-csr/segmented_sum", "csr/merge"])
@pytest.mark.parametrize("n", [0, 5, 700])
def test_dot_products_of_matrices_without_entries(name, n):
    torch = pytest.importorskip("torch")
    plan = wl.plan(csr_array((n, n)), "spmv", device="cuda", select=f"spmv/none/{name}")
    x = torch.ones(n, dtype=torch.float64, device="cuda")
    y, dot = torch.full_like(x, float("nan")), torch.full((), float("nan"), dtype=torch.float64, device="cuda")
    for _ in range(2):
        plan.product_and_dot(x, y, dot)
        assert not y.any()
        assert dot.item() == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_bias_that_starts_anywhere(dtype):
    torch = pytest.importorskip("torch")
    dtype = _bfloat16.as_dtype(dtype)
    A = typed(random_array((300, 200), density=0.1, rng=np.random.default_rng(0), format="csr"), dtype)
    B = tensor_of(operand((200, 32), dtype, "row")).cuda()
    for name in ("csr/row_split", "segmented-csr/row_split"):
        plan = wl.plan(A, k=32, device="cuda", select=f"spmm/none/{name}")
        for first in (1, 2, 3):
            room = tensor_of(operand((1, 36), dtype, "row", seed=2)[0]).cuda()
            bias = room[first : first + 32]
            assert torch.equal(plan(B, bias=bias), plan(B, bias=bias.clone()))


def test_streams():
    """Operands are made on the stream, behind work that takes long, and results are there after it."""
    torch = pytest.importorskip("torch")
    A = stencil(np.float64)
    plans = [wl.plan(A, "spmv", device="cuda", select=f"spmv/none/{name}") for name in ("csr/vector", "csr/merge")]
    wide = wl.plan(A, k=32, device="cuda", select="spmm/none/csr/row_split")
    n = A.shape[0]
    for stream in (torch.cuda.Stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
            x, X = (torch.randn(n, *shape, dtype=torch.float64, device="cuda") for shape in ((), (32,)))
            out, bias = torch.ones_like(X), torch.randn(32, dtype=torch.float64, device="cuda")
            wide(X, out=out, alpha=2.0, beta=-1.0, bias=bias, activation="relu")
            results = [plan.product_and_dot(x) for plan in plans]
            solution, info = wl.solvers.cg(plans[0], x, rtol=1e-10)
        stream.synchronize()
        expected = np.maximum(2 * (A @ X.cpu().numpy()) - 1 + bias.cpu().numpy(), 0)
        np.testing.assert_allclose(out.cpu().numpy(), expected, rtol=1e-10, atol=1e-10)
        host = x.cpu().numpy()
        for y, dot in results:
            np.testing.assert_allclose(y.cpu().numpy(), A @ host, rtol=1e-10, atol=1e-10)
            np.testing.assert_allclose(dot.item(), host @ (A @ host), rtol=1e-10)
        assert info == 0
        assert np.linalg.norm(host - A @ solution.cpu().numpy()) <= 1e-9 * np.linalg.norm(host)


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("name", ["compressed-sell/vector", "csr/vector", "sell/vector"])
def test_in_a_graph(name, warm):
    torch = pytest.importorskip("torch")
    A = stencil(np.float64)
    plan = wl.plan(A, "spmv", device="cuda", select=f"spmv/none/{name}")
    x = torch.ones(A.shape[0], dtype=torch.float64, device="cuda")
    y, dot, bias = torch.empty_like(x), torch.empty((), dtype=x.dtype, device="cuda"), torch.ones_like(x)
    z = torch.empty_like(x)
    if warm:
        plan.product_and_dot(x, y, dot)
    with capture() as graph:
        plan.product_and_dot(x, y, dot)
        plan(x, out=z, bias=bias, activation="relu")
    x.copy_(torch.randn_like(x))
    for _ in range(2):
        dot.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        np.testing.assert_allclose(y.cpu().numpy(), A @ x.cpu().numpy(), rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(dot, (x * y).sum())
        torch.testing.assert_close(z, torch.relu(y + 1))
    del graph
    plan.product_and_dot(x, y, dot)
    torch.testing.assert_close(dot, (x * y).sum())


def test_calls_do_not_wait_for_the_gpu():
    torch = pytest.importorskip("torch")
    A = stencil(np.float32)
    operator = wl.plan(A, device="cuda")
    x = torch.ones(A.shape[0], device="cuda")
    X, bias = torch.ones(A.shape[0], 32, device="cuda"), torch.ones(32, device="cuda")
    y, C = torch.empty_like(x), torch.ones_like(X)
    calls = [
        lambda: operator.product_and_dot(x, y),
        lambda: operator(X, out=C, bias=bias, activation="relu"),
        lambda: operator(x, out=y, beta=1.0, bias=x),
    ]
    for call in calls:
        call()
    torch.cuda.synchronize()
    for call in calls:
        torch.cuda._sleep(100_000_000)
        call()
        assert not torch.cuda.current_stream().query()
        torch.cuda.synchronize()


# ----- gradients -----


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("kind", ["row", "column", "operator"])
def test_gradients(kind):
    torch = pytest.importorskip("torch", minversion="2.5")
    import warploom.torch as wt

    A = csr_array(random_array((400, 300), density=0.05, rng=np.random.default_rng(0), format="csr")).astype(np.float32)
    plan = wl.plan(A, device="cuda", updatable=True, **PLANS[kind])
    X = torch.randn(300, 32, device="cuda", requires_grad=True)
    values = torch.from_numpy(A.data).cuda().requires_grad_()
    bias = torch.randn(32, device="cuda", requires_grad=True)
    weights = torch.randn(400, 32, device="cuda")
    indptr, indices = (torch.from_numpy(part).cuda() for part in (A.indptr, A.indices))
    rows = torch.repeat_interleave(torch.arange(400, device="cuda"), indptr.diff())
    dense = torch.zeros(400, 300, device="cuda").index_put((rows, indices.long()), values, accumulate=True)
    given = (X, values, bias)
    expected = torch.autograd.grad((weights * torch.relu(dense @ X + bias)).sum(), given)

    def loss(X, values, bias):
        return (weights * wt.spmm(plan, X, values, bias=bias, activation="relu")).sum()

    torch._dynamo.reset()
    for call in (loss, torch.compile(loss, fullgraph=True)):
        for found, known in zip(torch.autograd.grad(call(*given), given), expected, strict=True):
            torch.testing.assert_close(found, known, rtol=1e-3, atol=1e-3)
    # Where it is not wanted, nothing is kept.
    with torch.no_grad():
        result = wt.spmm(plan, X, bias=bias, activation="relu")
    torch.testing.assert_close(result, torch.relu(dense @ X + bias).detach(), rtol=1e-3, atol=1e-3)


# ----- conjugate gradients -----


@pytest.mark.parametrize("library", ["torch", "cupy"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [None, "csr/vector", "sell/vector", "csr/merge"])
def test_conjugate_gradients(name, dtype, library):
    """With kernels that take the dot product along, and with others."""
    package = pytest.importorskip(library)
    A = stencil(dtype)
    select = "auto" if name is None else f"spmv/none/{name}"
    plan = wl.plan(A, "spmv", device="cuda", select=select)
    host = np.random.default_rng(1).standard_normal(A.shape[0]).astype(dtype)
    b = package.from_numpy(host).cuda() if library == "torch" else package.asarray(host)
    tolerance = 1e-4 if dtype == np.float32 else 1e-10

    def residual(x):
        on_host = x.cpu().numpy() if library == "torch" else x.get()
        return np.linalg.norm(host - A @ on_host) / np.linalg.norm(host)

    x, info = wl.solvers.cg(plan, b, rtol=tolerance)
    assert info == 0
    assert type(x) is type(b)
    assert residual(x) <= 5 * tolerance
    again, _ = wl.solvers.cg(plan, b, rtol=tolerance)
    assert (x == again).all()
    # From there on nothing is to be done; and steps that find no residual leave x as it is.
    exact, info = wl.solvers.cg(plan, b, x, rtol=10 * tolerance)
    assert info == 0
    assert (exact == x).all()
    zero, info = wl.solvers.cg(plan, 0 * b, maxiter=8)
    assert info == 0
    assert not zero.any()
    _, info = wl.solvers.cg(plan, b, rtol=0.0, maxiter=13)
    assert info == 13
    negative, info = wl.solvers.cg(wl.plan(csr_array(-A), "spmv", device="cuda", select=select), b, maxiter=99)
    assert info == 8  # the first time that the residual is looked at
    assert not negative.any()
    for value in (float("inf"), float("nan")):
        x, info = wl.solvers.cg(plan, value * b)
        assert info == 8
        assert (x == 0).all()
    # The second of the eight steps finds that the matrix is indefinite; the first one was fine.
    indefinite = wl.plan(csr_array(np.diag([1.0, -0.5]).astype(dtype)), "spmv", device="cuda", select=select)
    x, info = wl.solvers.cg(indefinite, 0 * b[:2] + 1, maxiter=99)
    assert 0 < info <= 16
    assert (x == 4).all()
    on_cpu = wl.plan(A, "spmv", device="cpu", select="spmv/none/csr/vector")
    with pytest.raises(wl.errors.DeviceError):
        wl.solvers.cg(on_cpu, b)
