"""Sampled products on the GPU against float64 sums, and against the vendor's."""

import concurrent.futures
import itertools
import sys

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import warploom as wl
from battery import battery
from capturing import capture
from products import tensor_of
from sampled import DTYPES, assert_sampled, operands
from warploom import _bfloat16, _device, errors
from warploom._device import Device
from warploom.bench import sampled

torch = pytest.importorskip("torch")

CANDIDATES = ("sddmm/none/csr/warp_windows", "sddmm/none/csr/cusparse", "sddmm/none/column-vectors/tensor_core")


def plan_for(A, candidate, dtype):
    if candidate.endswith("cusparse"):
        if reason := _device.load_cusparse():
            pytest.skip(f"no cuSPARSE: {reason}")
        if dtype == "bfloat16":
            pytest.skip("cuSPARSE does not sample bfloat16")
        if 0 in A.shape or A.nnz == 0:
            pytest.skip("cuSPARSE takes no empty matrix")
    if candidate.endswith("tensor_core") and not takes_vectors(A):
        pytest.skip("refused")
    return wl.sddmm_plan(A, device="cuda", select=candidate)


def takes_vectors(A):
    rows = [A.indices[begin:end] for begin, end in itertools.pairwise(A.indptr)]
    return all(len(row) <= 8192 and np.all(np.diff(row) > 0) for row in rows)


def multiply(plan, X, Y):
    """Run twice, into memory that was written to before."""
    results = []
    for _ in range(2):
        out = torch.full((plan.nnz,), float("nan"), dtype=tensor_of(X).dtype, device="cuda")
        assert plan(tensor_of(X).cuda(), tensor_of(Y).cuda(), out=out) is out
        results.append(_bfloat16.of_tensor(out.cpu()))
    np.testing.assert_array_equal(results[0].view(np.uint8), results[1].view(np.uint8))
    return results[1]


@pytest.mark.parametrize("candidate", CANDIDATES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", battery(np.float64))
def test_battery(name, dtype, candidate):
    A = battery(np.float64)[name]
    plan = plan_for(A, candidate, dtype)
    for k in (0, 1, 3, 4, 7, 8, 16, 24, 32, 33, 64, 128, 130, 256, 300):
        if k == 0 and candidate.endswith("cusparse"):
            continue
        X, Y = operands(A.shape, k, dtype)
        assert_sampled(A, X, Y, multiply(plan, X, Y))


def skewed(m=30_000, n=20_000, seed=5):
    """Rows from none to thousands of nonzeros, stretches of empty rows, and one row with most columns."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum(n, (rng.pareto(1.2, m) * 4).astype(np.int64))
    lengths[m // 6 : m // 2] = 0
    lengths[[0, 2 * m // 3, m - 1]] = n, 3 * n // 4, 0
    indptr = np.append(0, np.cumsum(lengths))
    indices = rng.integers(0, n, indptr[-1], dtype=np.int32)
    return csr_array((np.ones(indptr[-1], np.float32), indices, indptr), shape=(m, n))


def dense_in_windows(m=20_003, n=15_001, seed=6):
    """Rows that share columns with their neighbours, by ascending column: some none, some hundreds, some every one."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 40, m)
    lengths[m // 4 : m // 3] = 0
    lengths[[5, m // 2, m - 1]] = 3000, 1, 700
    begins = np.minimum(np.arange(m) // 8 * 7, n - 1)
    rows = [
        np.unique(np.minimum(begin + rng.integers(0, 2 * length + 1, length), n - 1))
        for begin, length in zip(begins, lengths, strict=True)
    ]
    indptr = np.append(0, np.cumsum([len(row) for row in rows]))
    return csr_array((np.ones(indptr[-1], np.float32), np.concatenate(rows).astype(np.int32), indptr), shape=(m, n))


@pytest.mark.parametrize("candidate", [CANDIDATES[0], CANDIDATES[2]])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [8, 16, 32, 40, 64, 120, 128, 136, 256])
def test_long_rows(k, dtype, candidate):
    """Most windows of a warp are within one row, and some are not."""
    A = random_array((301, 2003), density=0.3, format="csr", dtype=np.float32, rng=np.random.default_rng(k))
    A.sort_indices()
    X, Y = operands(A.shape, k, dtype)
    assert_sampled(A, X, Y, multiply(plan_for(A, candidate, dtype), X, Y))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [4, 8, 18, 32, 72, 128, 264])
def test_windows_that_share_columns(k, dtype):
    A = dense_in_windows()
    X, Y = operands(A.shape, k, dtype)
    assert_sampled(A, X, Y, multiply(plan_for(A, CANDIDATES[2], dtype), X, Y))


def test_vectors_are_refused():
    """By name only: the default takes the pattern as it is."""
    rng = np.random.default_rng(7)
    long = csr_array((np.ones(9000), np.arange(9000), [0, 9000]), shape=(1, 9000))
    descending = csr_array((np.ones(3), [2, 1, 0], [0, 3]), shape=(1, 3))
    repeated = csr_array((np.ones(3), [0, 1, 1], [0, 3]), shape=(1, 3))
    for A, reason in ((long, "at most 8192"), (descending, "ascend"), (repeated, "repeated")):
        with pytest.raises(errors.ParameterError, match=reason) as caught:
            wl.sddmm_plan(A, device="cuda", select=CANDIDATES[2])
        assert caught.value.argument == "select"
        X, Y = (_bfloat16.cast(rng.random((size, 8)), np.dtype(np.float16)) for size in A.shape)
        assert_sampled(A, X, Y, multiply(wl.sddmm_plan(A, device="cuda"), X, Y))


def exact(A, X, Y):
    """Sums in float64, rounded to float32: they may overflow, and be no number."""
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    return (X[rows].astype(np.float64) * Y[A.indices]).sum(axis=1).astype(np.float32)


@np.errstate(over="ignore", invalid="ignore")
def assert_as_exact(A, X, Y, found):
    """Check float32 against sums in float64: what is not finite has to be the same. Low parts may be below 2^-136."""
    expected, scale = exact(A, X, Y), exact(A, abs(X), abs(Y))
    others = exact(A, abs(X), np.ones_like(Y)) + exact(A, np.ones_like(X), abs(Y))
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    bound = (X.shape[1] + 2) * (2.0**-23 * scale + 2.0**-149) + 2.0**-136 * others
    wrong = ~(abs(found - expected) <= bound)
    assert not np.any(wrong & finite), (found[wrong & finite], expected[wrong & finite])


@pytest.mark.parametrize("k", [4, 32, 40, 256])
def test_float32_on_tensor_cores_at_the_limits(k):
    """What is infinite, no number, or so large or small that it cannot be taken apart."""
    A = random_array((120, 90), density=0.4, format="csr", dtype=np.float32, rng=np.random.default_rng(k))
    A.sort_indices()
    plan = wl.sddmm_plan(A, device="cuda", select=CANDIDATES[2])
    X, Y = operands(A.shape, k, "float32")
    X[3, 0], X[9, -1], X[17, 1] = np.inf, -np.inf, np.nan
    X[30], Y[30] = 0, 0
    X[30, 2] = np.finfo(np.float32).max
    Y[::2, 2] = 0.5
    Y[40, 0], Y[41, 0] = np.inf, 0
    found = multiply(plan, X, Y)
    assert np.sum(~np.isfinite(found)) > 100
    assert_as_exact(A, X, Y, found)


@pytest.mark.parametrize("exponent", [-149, -126, -110, -60, 60, 110])
def test_float32_on_tensor_cores_of_any_magnitude(exponent):
    A = random_array((120, 90), density=0.4, format="csr", dtype=np.float32, rng=np.random.default_rng(1))
    A.sort_indices()
    plan = wl.sddmm_plan(A, device="cuda", select=CANDIDATES[2])
    X, Y = operands(A.shape, 32, "float32")
    X = np.ldexp(X, exponent)
    assert_as_exact(A, X, Y, multiply(plan, X, Y))


def test_prepared_by_default_where_rows_share_columns():
    """And not while a graph is captured, nor for columns that it is not for."""
    shared, scattered = dense_in_windows(), csr_array((np.ones(300), np.arange(300) * 7 % 300, np.arange(301)))
    graphs = []  # letting go of one while another is captured would spoil that
    for A, pays in ((shared, True), (scattered, False)):
        plan = wl.sddmm_plan(A, device="cuda")
        pattern = plan._pattern.core
        for k, dtype in ((12, "float16"), (33, "float32"), (3, "float64")):
            plan(*(tensor_of(given).cuda() for given in operands(A.shape, k, dtype)))
            assert pattern.pays_for(dtype) is None
        X, Y = operands(A.shape, 32, "float16")
        x, y = tensor_of(X).cuda(), tensor_of(Y).cuda()
        with capture() as before:
            captured = plan(x, y)
        assert pattern.pays_for("float16") is None
        assert_sampled(A, X, Y, multiply(plan, X, Y))
        assert pattern.pays_for("float16") is pays
        assert pattern.pays_for("float32") is None
        assert (pattern.vector_nbytes > 0) == pays
        before.replay()
        torch.cuda.synchronize()
        assert_sampled(A, X, Y, captured.cpu().numpy())
        with capture() as after:
            captured = plan(x, y)
        after.replay()
        torch.cuda.synchronize()
        graphs += [before, after]
        assert_sampled(A, X, Y, captured.cpu().numpy())
        if pays:
            assert pattern.vector_nbytes <= 8 * A.nnz


def test_prepared_for_the_types_that_it_pays_for():
    """Full windows pay for each, whichever comes first, and are prepared once; what shares little pays for none."""
    full = csr_array(np.ones((64, 48), np.float32))
    little = csr_array(np.eye(64))
    for first in DTYPES:
        for A, pays in ((full, True), (little, False)):
            plan = wl.sddmm_plan(A, device="cuda")
            made = set()
            for dtype in (first, *DTYPES):
                X, Y = operands(A.shape, 16, dtype)
                assert_sampled(A, X, Y, multiply(plan, X, Y))
                assert plan._pattern.core.pays_for(dtype) is pays
                made.add(plan._pattern.core.vector_nbytes)
            assert len(made) == 1


@pytest.mark.parametrize("candidate", CANDIDATES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [5, 32, 128])
def test_larger_than_one_wave(k, dtype, candidate):
    A = skewed()
    X, Y = operands(A.shape, k, dtype)
    assert_sampled(A, X, Y, multiply(plan_for(A, candidate, dtype), X, Y))


@pytest.mark.parametrize("wide", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_as_they_are(dtype, wide):
    """Row offsets and columns of 32 and 64 bits, and operands that begin anywhere or have gaps between rows."""
    A = skewed(2000, 1500)
    kinds = [torch.int64 if is_wide else torch.int32 for is_wide in wide]
    indptr = torch.from_numpy(A.indptr.astype(np.int64)).to(kinds[0]).cuda()
    indices = torch.from_numpy(A.indices.astype(np.int64)).to(kinds[1]).cuda()
    given = wl.CSR(indptr, indices, torch.ones(A.nnz, device="cuda"), A.shape)
    for k in (8, 33, 64):
        X, Y = operands(A.shape, k, dtype)
        x, y = tensor_of(X).cuda(), tensor_of(Y).cuda()
        expected = wl.sddmm(given, x, y)
        assert (expected.dtype, expected.device, expected.shape) == (x.dtype, x.device, (A.nnz,))
        assert_sampled(A, X, Y, _bfloat16.of_tensor(expected.cpu()))
        shifted = torch.empty(x.numel() + 1, dtype=x.dtype, device="cuda")[1:].view(x.shape)
        shifted.copy_(x)
        assert_sampled(A, X, Y, _bfloat16.of_tensor(wl.sddmm(given, shifted, y).cpu()))
        gaps = torch.empty((len(X), k + 3), dtype=x.dtype, device="cuda")[:, :k]
        gaps.copy_(x)
        assert torch.equal(wl.sddmm(given, gaps, y), expected)
        assert torch.equal(wl.sddmm(given, x.t().contiguous().t(), y), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_host_operands(dtype):
    A = battery(np.float64)["random"]
    plan = wl.sddmm_plan(A, device="cuda")
    X, Y = operands(A.shape, 12, dtype)
    assert_sampled(A, X, Y, plan(X, Y))
    found = plan(tensor_of(X), tensor_of(Y))
    assert found.device.type == "cpu"
    assert_sampled(A, X, Y, _bfloat16.of_tensor(found))


def test_on_the_current_stream_and_in_a_graph():
    A = skewed(3000, 2000)
    plan = wl.sddmm_plan(A, device="cuda")
    X, Y = operands(A.shape, 32, "float32")
    x, y = tensor_of(X).cuda(), tensor_of(Y).cuda()
    expected = plan(x, y)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late = x * 2
        doubled = plan(late, y)  # would read `late` too early on any other stream
    stream.synchronize()
    assert torch.equal(doubled, 2 * expected)
    with capture() as graph:
        captured = plan(x, y)
    x.mul_(3)
    graph.replay()
    torch.cuda.synchronize()
    assert_sampled(A, _bfloat16.of_tensor(x.cpu()), Y, captured.cpu().numpy())


def test_arrays_that_changed_since_they_were_checked():
    """Nothing outside of X and Y is read."""
    A = skewed(2000, 1500)
    for spoilt in (2**30, -(2**30)):
        for dtype in ("float32", "float16"):
            arrays = [torch.from_numpy(np.asarray(a)).cuda() for a in (A.indptr, A.indices, A.data)]
            plan = wl.sddmm_plan(wl.CSR(*arrays, A.shape), device="cuda")
            x, y = (tensor_of(given).cuda() for given in operands(A.shape, 32, dtype))
            arrays[0].fill_(spoilt)
            arrays[1].fill_(spoilt)
            assert plan(x, y).shape == (A.nnz,)
    torch.cuda.synchronize()


def test_the_gradient_is_a_sampled_product():
    import warploom.torch

    A = skewed(500, 400)
    plan = wl.plan(A.astype(np.float32), k=16, device="cuda", select="spmm/none/csr/row_split", updatable=True)
    values = torch.rand(A.nnz, device="cuda", requires_grad=True)
    B = torch.rand(400, 16, device="cuda")
    grad = torch.rand(500, 16, device="cuda")
    warploom.torch.spmm(plan, B, values).backward(grad)
    assert torch.equal(values.grad, wl.sddmm_plan(A, device="cuda")(grad, B))


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_looked_at_one_by_one_gives_the_same(dtype):
    """Tensors that fit are read by compiled code; others, and what errors name, are looked at one by one."""
    A = skewed(500, 400)
    plan = wl.sddmm_plan(A, device="cuda")
    fast, slow = plan._fast_path, plan._multiply
    x, y = (tensor_of(given).cuda() for given in operands(A.shape, 16, dtype))
    expected, out = slow(x, y, None), torch.empty(A.nnz, dtype=x.dtype, device="cuda")
    assert torch.equal(fast(x, y, None), expected)
    assert fast(x, y, out) is out
    assert torch.equal(out, expected)
    assert slow(x, y, out.zero_()) is out
    assert torch.equal(out, expected)
    beside = torch.cat([x.reshape(-1), out])
    assert torch.equal(fast(beside[: x.numel()].view(x.shape), y, beside[x.numel() :]), expected)
    for X in (torch.nn.Parameter(x, requires_grad=False), torch.cat([x, x], dim=1)[:, :16], x.clone().requires_grad_()):
        with torch.no_grad():
            assert fast(X, y, None) is NotImplemented
            assert torch.equal(plan(X, y), expected)
    other = torch.float32 if dtype == "float64" else torch.float64
    for argument, kind, given in (
        ("X", errors.ParameterError, (x.clone().requires_grad_(), y)),
        ("X", errors.ShapeError, (x[1:].clone(), y)),
        ("X", errors.ShapeError, (x[0], y)),
        ("X", errors.DtypeError, (x.to_sparse(), y)),
        ("Y", errors.ShapeError, (x, y[:, 1:].clone())),
        ("Y", errors.DtypeError, (x, y.to(other))),
        ("Y", errors.DeviceError, (x, y.cpu())),
        ("out", errors.ShapeError, (x, y, out[1:].clone())),
        ("out", errors.DtypeError, (x, y, out.to(other))),
        ("out", errors.ParameterError, (x, y, torch.cat([out, out])[::2])),
        ("out", errors.ParameterError, (beside[: x.numel()].view(x.shape), y, beside[x.numel() - 1 : -1])),
        ("out", errors.DeviceError, (x, y, out.cpu())),
    ):
        assert fast(*given, *[None] * (3 - len(given))) is NotImplemented
        with pytest.raises(kind) as caught:
            plan(*given)
        assert caught.value.argument == argument, (argument, caught.value)
    for nothing in (None, 3, [[1.0]], object(), np.zeros((500, 16)), x[:, :0]):
        assert fast(nothing, y, None) is NotImplemented
    with pytest.raises(errors.ParameterError, match="traces or maps"):
        torch.vmap(lambda one: plan(one, y))(x[None])
    with pytest.raises(TypeError, match="X, Y and out"):
        fast(x, y)


def test_arrays_of_cupy_are_read_by_compiled_code():
    cupy = pytest.importorskip("cupy")
    A = skewed(500, 400)
    plan = wl.sddmm_plan(A, device="cuda")
    X, Y = operands(A.shape, 32, "float32")
    x, y = cupy.asarray(X), cupy.asarray(Y)
    found = plan._fast_path(x, y, None)
    assert isinstance(found, cupy.ndarray)
    assert_sampled(A, X, Y, cupy.asnumpy(found))
    out = cupy.empty_like(found)
    assert plan._fast_path(x, y, out) is out
    np.testing.assert_array_equal(cupy.asnumpy(out), cupy.asnumpy(found))
    for given in ((cupy.asfortranarray(x), y, None), (x, y[1:], None), (x, y.astype("f8"), None), (x, Y, None)):
        assert plan._fast_path(*given) is NotImplemented
    with cupy.cuda.Stream() as stream:
        pad = cupy.zeros(1 << 26, np.float32)
        for _ in range(20):
            pad += 1
        x[...] = 2 * x  # late: read too early on any other stream
        doubled = plan(x, y)
        stream.synchronize()
    np.testing.assert_array_equal(cupy.asnumpy(doubled), 2 * cupy.asnumpy(found))


def test_it_is_on_the_current_stream_and_keeps_no_reference():
    A = dense_in_windows()
    plan = wl.sddmm_plan(A, device="cuda")
    x, y = (tensor_of(given).cuda() for given in operands(A.shape, 16, "float32"))
    expected = plan(x, y)
    counts = [sys.getrefcount(thing) for thing in (x, y, expected, NotImplemented)]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        late = 2 * x
        found = plan._fast_path(late, y, None)  # would read `late` too early on any other stream
        for _ in range(50):
            plan._fast_path(x, y, expected)
            plan._fast_path(x, y[:, 1:], None)
    torch.cuda.synchronize()
    assert torch.equal(found, 2 * expected)
    assert [sys.getrefcount(thing) for thing in (x, y, expected, NotImplemented)] == counts


def test_threads_that_come_first_at_the_same_time():
    """Column vectors are made once, and whoever does not make them waits."""
    A = dense_in_windows()
    for _ in range(5):
        plan = wl.sddmm_plan(A, device="cuda")
        given = [[tensor_of(part).cuda() for part in operands(A.shape, 16, dtype)] for dtype in DTYPES]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            found = list(pool.map(plan, *zip(*given * 4, strict=True)))
        torch.cuda.synchronize()
        for values, pair in zip(found, given * 4, strict=True):
            assert torch.equal(values, plan(*pair))


def test_operands_elsewhere():
    plan = wl.sddmm_plan(battery(np.float64)["tridiagonal"], device="cuda")
    host, there = torch.zeros(70, 4), torch.zeros(70, 4, device="cuda")
    for X, Y in ((host, there), (there, host)):
        with pytest.raises(errors.DeviceError) as caught:
            plan(X, Y)
        assert caught.value.argument == "Y"
    with pytest.raises(errors.DeviceError) as caught:
        wl.sddmm_plan(battery(np.float64)["tridiagonal"], device="cpu")(there, there)
    assert caught.value.argument == "X"


@pytest.mark.parametrize("dtype", DTYPES)
def test_in_a_sweep(dtype):
    A = dense_in_windows()
    measured = sampled.Operands(A, dtype, 32, Device("cuda", 0))
    names = sampled.candidates(dtype, "cuda")
    assert set(names) == set(CANDIDATES) - ({CANDIDATES[1]} if dtype == "bfloat16" else set())
    for name in names:
        if name.endswith("cusparse") and _device.load_cusparse():
            continue
        assert measured.check(name) == ""
        for cold in (False, True):
            times = measured.time(name, cold=cold, repeats=5, warmup=1, budget_ms=50)
            assert 0 < times.p10 <= times.median <= times.p90
            assert 3 <= times.repeats <= 5
