"""New values for a plan on the GPU: its products are then those of a new plan, bit for bit, on the caller's stream."""

import functools

import numpy as np
import pytest
from scipy.sparse import csr_array

import warploom as wl
from products import assert_product, widened
from updates import matrices, new_values, stencil, with_values
from warploom import _bfloat16, _device, errors
from warploom.candidates import Candidate, kernels

K = 5
CASES = [
    pytest.param(k, layout, _bfloat16.as_dtype(dtype), id=f"{k.op}-{k.format}-{k.name}-{layout}-{dtype}")
    for op in ("spmv", "spmm")
    for k in kernels(op)
    for layout in (k.layouts if op == "spmm" else ["column"])
    for dtype in k.dtypes
]


def plan_for(A, kernel, layout, permutation="none", **options):
    if kernel.vendor and (reason := _device.load_cusparse()):
        pytest.skip(f"no cuSPARSE: {reason}")
    name = Candidate.make(kernel, permutation).name
    described = {"k": K, "layout": layout} if kernel.op == "spmm" else {}
    return wl.plan(A, kernel.op, device="cuda", select=name, **described, **options)


def operand_for(A, kernel):
    shape = (A.shape[1], K) if kernel.op == "spmm" else (A.shape[1],)
    return _bfloat16.cast(np.random.default_rng(2).standard_normal(shape), A.data.dtype)


def assert_same(A, kernel, B, found, expected):
    if kernel.reproducible:
        assert found.tobytes() == expected.tobytes()
    elif np.isfinite(widened(A.data)).all():
        assert_product(A, B.reshape(len(B), -1), found.reshape(len(found), -1), kernel.vendor)


def new_plan(A, kernel, layout, permutation="none"):
    """Return a plan; None if the kernel refuses the matrix, or the vendor's library does, which takes no empty one."""
    if kernel.vendor and (0 in A.shape or A.nnz == 0):
        return None
    try:
        return plan_for(A, kernel, layout, permutation)
    except errors.ParameterError:
        return None


def check(A, kernel, layout, permutation="none"):
    """Whether the kernel takes the matrix; asserts that an updated plan is as good as a new one."""
    A_new = with_values(A, new_values(A))
    new, old = new_plan(A_new, kernel, layout, permutation), new_plan(A, kernel, layout, permutation)
    if new is None or old is None:
        return False
    B = operand_for(A, kernel)
    plan = plan_for(A, kernel, layout, permutation, updatable=True)
    assert_same(A, kernel, B, plan @ B, old @ B)
    plan.update_values(A_new.data)
    assert_same(A_new, kernel, B, plan @ B, new @ B)
    plan.update_values(A.data)
    assert_same(A, kernel, B, plan @ B, old @ B)
    assert plan.nbytes >= new.nbytes
    return True


@pytest.mark.parametrize("name", matrices(np.dtype(np.float32)))
@pytest.mark.parametrize(("kernel", "layout", "dtype"), CASES)
def test_every_kernel(kernel, layout, dtype, name):
    if not check(matrices(dtype)[name], kernel, layout):
        pytest.skip("refused")


@pytest.mark.parametrize("permutation", ["lpt", "warp-aware"])
@pytest.mark.parametrize(("kernel", "layout", "dtype"), CASES)
def test_permuted(kernel, layout, dtype, permutation):
    if not kernel.permutes:
        pytest.skip("takes no permutation")
    took = [check(matrices(dtype)[name], kernel, layout, permutation) for name in ("many", "random")]
    assert any(took)


@functools.cache
def large():
    """Return a matrix whose update and product take some time."""
    rng = np.random.default_rng(0)
    m, row = 200_000, 32
    indices = (np.arange(m)[:, None] + np.sort(rng.choice(50_000, row, replace=False))) % m
    indptr = np.arange(m + 1) * row
    return csr_array((rng.uniform(-1, 1, m * row).astype(np.float32), indices.ravel().astype(np.int32), indptr), (m, m))


NAMES = ["spmv/none/csr/vector", "spmv/lpt/csr/vector", "spmv/none/sell/vector", "spmv/none/compressed-sell/vector"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_the_matrix_and_its_values_on_the_gpu(name, library):
    """Arrays that are somebody else's stay as they are, and values are moved on the caller's current stream."""
    A = large()
    data = new_values(A)
    x = np.random.default_rng(1).standard_normal(A.shape[1]).astype(np.float32)
    expected = wl.plan(with_values(A, data), "spmv", device="cuda", select=name) @ x
    if library == "torch":
        torch = pytest.importorskip("torch")
        there = torch.sparse_csr_tensor(
            torch.from_numpy(A.indptr.astype(np.int32)), torch.from_numpy(A.indices), torch.from_numpy(A.data), A.shape
        ).cuda()
        values, x_there = torch.from_numpy(data).cuda(), torch.from_numpy(x).cuda()
        plan = wl.plan(there, "spmv", device="cuda", select=name, updatable=True)
        stream = torch.cuda.Stream()
        plan.update_values(torch.stack([values, values], 1)[:, 0])  # loads the kernels, which waits
        torch.cuda._sleep(1)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
            given = torch.stack([values, values], 1)[:, 0]  # not contiguous, and made on the stream
            plan.update_values(given)
            assert not stream.query(), "the update must not wait for the stream"
            del given
            y = plan @ x_there
        stream.synchronize()
        found, kept = y.cpu().numpy(), there.values().cpu().numpy()
    else:
        cupy = pytest.importorskip("cupy")
        sparse = pytest.importorskip("cupyx.scipy.sparse")
        there = sparse.csr_matrix(
            (cupy.asarray(A.data), cupy.asarray(A.indices), cupy.asarray(A.indptr.astype(np.int32))), shape=A.shape
        )
        values, x_there = cupy.asarray(data), cupy.asarray(x)
        plan = wl.plan(there, "spmv", device="cuda", select=name, updatable=True)
        cupy.cuda.Device().synchronize()
        with cupy.cuda.Stream(non_blocking=True) as stream:
            given = cupy.stack([values, values], 1)[:, 0]
            plan.update_values(given)
            del given
            y = plan @ x_there
            stream.synchronize()
        found, kept = y.get(), there.data.get()
    assert found.tobytes() == expected.tobytes()
    np.testing.assert_array_equal(kept, A.data)


@pytest.mark.parametrize("kernel", ["none/csr/vector", "lpt/csr/vector", "none/csr/merge", "none/cmrs/basic"])
def test_plans_of_one_matrix_are_apart(kernel):
    """Plans that are not updated keep their values, although kernels on CSR share the arrays otherwise."""
    torch = pytest.importorskip("torch")
    A = matrices(np.dtype(np.float32))["many"]
    there = torch.sparse_csr_tensor(
        torch.from_numpy(A.indptr.astype(np.int32)), torch.from_numpy(A.indices), torch.from_numpy(A.data), A.shape
    ).cuda()
    x = np.ones(A.shape[1], np.float32)
    choice = {"select": f"spmv/{kernel}", "device": "cuda"}
    plans = [wl.plan(there, "spmv", updatable=updatable, **choice) for updatable in (False, True, True)]
    before = [plan @ x for plan in plans]
    plans[1].update_values(np.zeros(A.nnz, np.float32))
    assert not (plans[1] @ x).any()
    for plan, y in zip(plans[::2], before[::2], strict=True):
        assert (plan @ x).tobytes() == y.tobytes()


@pytest.mark.parametrize("kernel", ["compressed-sell/vector", "sell/vector", "ell/vector", "bsr/vector"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_what_repeats_takes_little_memory(kernel, dtype):
    A = stencil(np.dtype(dtype), 256)
    data, x = new_values(A), np.random.default_rng(1).standard_normal(A.shape[1]).astype(dtype)
    name = f"spmv/none/{kernel}"
    new = wl.plan(with_values(A, data), "spmv", device="cuda", select=name)
    plan = wl.plan(A, "spmv", device="cuda", select=name, updatable=True)
    assert plan.nbytes - new.nbytes < A.nnz  # a map has 4 bytes for each place
    plan.update_values(data)
    assert (plan @ x).tobytes() == (new @ x).tobytes()


def test_measured_choices_can_be_updated():
    A = matrices(np.dtype(np.float32))["many"]
    plan = wl.plan(A, "spmv", device="cuda", select="measure", candidates="spmv/*/csr/*", updatable=True)
    data, x = new_values(A), np.ones(A.shape[1], np.float32)
    plan.update_values(data)
    assert_product(with_values(A, data), x[:, None], (plan @ x)[:, None])


def test_repeated_entries_in_bsr():
    """They are added up, so that the matrix is converted again, whatever stream the values are on."""
    torch = pytest.importorskip("torch")
    A = csr_array(([1.0, 2.0, 3.0], [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    plan = wl.plan(A, "spmv", device="cuda", select="spmv/none/bsr/vector", updatable=True)
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        plan.update_values(torch.tensor([10.0, 20.0, 30.0], dtype=torch.float64, device="cuda"))
        y = (plan @ x).cpu().numpy()
    np.testing.assert_array_equal(y, [60.0, 30.0])
    plan.update_values(np.array([1.0, 1.0, 1.0]))
    np.testing.assert_array_equal((plan @ x).cpu().numpy(), [4.0, 1.0])


def test_conversions_of_updated_plans_are_not_timed():
    A = matrices(np.dtype(np.float32))["many"]
    data, x = new_values(A), np.ones(A.shape[1], np.float32)
    plan = wl.plan(A, "spmv", device="cuda", select="spmv/none/dasp/cuda_core", updatable=True)
    plan.update_values(data)
    assert plan._core.time_conversion(warmup=0, repeats=2).size == 0
    assert_product(with_values(A, data), x[:, None], (plan @ x)[:, None])


def test_what_does_not_fit():
    torch = pytest.importorskip("torch")
    A = matrices(np.dtype(np.float32))["many"]
    plan = wl.plan(A, "spmv", device="cuda", select="spmv/none/csr/vector", updatable=True)
    data = torch.ones(A.nnz, device="cuda")
    for given, error in (
        (data[1:], errors.ShapeError),
        (data[:, None], errors.ShapeError),
        (data.double(), errors.DtypeError),
        (data.half(), errors.DtypeError),
        (data.clone().requires_grad_(), errors.ParameterError),
    ):
        with pytest.raises(error):
            plan.update_values(given)
    on_host = wl.plan(A, "spmv", device="cpu", select="spmv/none/csr/vector", updatable=True)
    with pytest.raises(errors.DeviceError):
        on_host.update_values(data)
    fixed = wl.plan(A, "spmv", device="cuda", select="spmv/none/csr/vector")
    with pytest.raises(errors.ParameterError, match="updatable=True"):
        fixed.update_values(data)
