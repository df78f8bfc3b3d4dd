"""Operators on the GPU: transposes, solvers with device vectors, factors, promoted operands."""

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg as sla
from scipy.sparse import csr_array, random_array

import warploom as wl
from products import assert_product, operand

PLANS = {
    "spmv": {"op": "spmv", "select": "spmv/none/csr/vector"},
    "row": {"k": 8, "select": "spmm/none/csr/row_split"},
    "column": {"k": 8, "layout": "column", "select": "spmm/none/csr/row_split"},
    "operator": {},
}


def matrix(m=300, n=200, dtype=np.float32):
    return csr_array(random_array((m, n), density=0.1, rng=np.random.default_rng(0), format="csr")).astype(dtype)


def in_torch(A):
    torch = pytest.importorskip("torch")
    return wl.CSR(*(torch.from_numpy(a).cuda() for a in (A.indptr, A.indices, A.data)), A.shape)


def in_cupy(A):
    pytest.importorskip("cupy")
    return pytest.importorskip("cupyx.scipy.sparse").csr_matrix(scipy.sparse.csr_matrix(A))


HOMES = {"host": lambda A: A, "torch": in_torch, "cupy": in_cupy}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("kind", PLANS)
def test_transposes(kind, home, dtype):
    A = matrix(dtype=dtype)
    A.indices[A.indptr[3] : A.indptr[4]] = A.indices[A.indptr[3] : A.indptr[4]][::-1].copy()
    plan = wl.plan(HOMES[home](A), device="cuda", **PLANS[kind])
    x = operand((300, 1), dtype, "row")
    assert_product(csr_array(A.T), x, (plan.T @ x[:, 0])[:, None])
    assert_product(csr_array(A.T), x, plan.rmatvec(x[:, 0])[:, None])
    if kind != "spmv":
        X = operand((300, 5), dtype, "row")
        assert_product(csr_array(A.T), X, plan.T @ X)
        assert_product(csr_array(A.T), X, (X.T @ plan).T)
    assert plan.T.T is plan
    assert all(chosen.device.kind == "cuda" for chosen in plan.T.plans.values())


@pytest.mark.parametrize("home", HOMES)
def test_operands_of_wider_types(home):
    A = matrix()
    plan = wl.plan(HOMES[home](A), device="cuda")
    x, X = operand((200, 1), np.float64, "row"), operand((200, 5), np.float64, "row")
    assert (plan @ x[:, 0]).dtype == np.float64
    assert_product(A.astype(np.float64), x, (plan @ x[:, 0])[:, None])
    assert_product(A.astype(np.float64), X, plan @ X)
    if home == "cupy":
        import cupy

        found = plan @ cupy.asarray(X)
        assert found.dtype == np.float64
        assert_product(A.astype(np.float64), X, found.get())
    if home == "torch":
        import torch

        with pytest.raises(wl.errors.DtypeError):
            plan @ torch.ones(200, dtype=torch.float64, device="cuda")


@pytest.mark.parametrize("shape", [(0, 40), (40, 0), (40, 30)])
@pytest.mark.parametrize("home", HOMES)
def test_transposes_of_empty_matrices(shape, home):
    if home == "cupy" and 0 in shape:
        pytest.skip("CuPy has no such matrices")
    plan = wl.plan(HOMES[home](csr_array(shape, dtype=np.float32)), "spmv", device="cuda")
    assert not (plan.T @ np.ones(shape[0], np.float32)).any()


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("kind", PLANS)
def test_a_matrix_that_changed_is_noticed(kind, home):
    A = matrix(dtype=np.float64)
    given = HOMES[home](A)
    plan = wl.plan(given, device="cuda", **PLANS[kind])
    plan @ np.ones(200)
    given.data[17] *= 1 + 1e-9
    with pytest.raises(wl.errors.InvalidMatrixError, match="changed"):
        plan.T @ np.ones(300)


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("kind", ["spmv", "row", "operator"])
def test_updated_values_reach_the_transpose(kind, home):
    torch = pytest.importorskip("torch")
    A = matrix(dtype=np.float64)
    B = csr_array((np.random.default_rng(3).standard_normal(A.nnz), A.indices, A.indptr), shape=A.shape)
    plan = wl.plan(HOMES[home](A), device="cuda", updatable=True, **PLANS[kind])
    z = np.linspace(-1, 1, 300)
    assert_product(csr_array(A.T), z[:, None], (plan.T @ z)[:, None])
    for values in (B.data, torch.from_numpy(B.data).cuda()):
        plan.update_values(values)
        assert_product(csr_array(B.T), z[:, None], (plan.T @ z)[:, None])
        assert_product(B, z[:200, None], (plan @ z[:200])[:, None])
        plan.update_values(A.data)
        assert_product(csr_array(A.T), z[:, None], (plan.T @ z)[:, None])


@pytest.mark.parametrize("kind", PLANS)
def test_device_vectors_stay_there(kind):
    A = matrix()
    plan = wl.plan(A, device="cuda", **PLANS[kind])
    x, z = operand((200, 1), np.float32, "row")[:, 0], operand((300, 1), np.float32, "row")[:, 0]
    libraries = []
    try:
        import torch

        libraries.append((lambda a: torch.from_numpy(a).cuda(), lambda a: a.cpu().numpy(), torch.Tensor))
    except ImportError:
        pass
    try:
        import cupy

        libraries.append((cupy.asarray, cupy.asnumpy, cupy.ndarray))
    except ImportError:
        pass
    for there, back, array in libraries:
        for result, T, given in (
            (plan.matvec(there(x)), A, x),
            (plan.rmatvec(there(z)), csr_array(A.T), z),
            (plan.T @ there(z), csr_array(A.T), z),
            (there(z) @ plan, csr_array(A.T), z),
            (plan.dot(there(x)), A, x),
        ):
            assert isinstance(result, array)
            assert_product(T, given[:, None], back(result)[:, None])


def test_solvers():
    A = matrix(200, 200, np.float64)
    A = csr_array(A + A.T + 30 * scipy.sparse.eye_array(200))
    plan, b = wl.plan(A, device="cuda"), np.ones(200)
    x, status = sla.cg(plan, b, rtol=1e-12)
    assert status == 0
    np.testing.assert_allclose(A @ x, b, atol=1e-9)
    found = np.sort(sla.eigsh(plan, 3, return_eigenvectors=False))
    np.testing.assert_allclose(found, np.linalg.eigvalsh(A.toarray())[-3:])
    cupy = pytest.importorskip("cupy")
    solvers = pytest.importorskip("cupyx.scipy.sparse.linalg")
    for solve in (solvers.cg, solvers.gmres):
        x, status = solve(plan, cupy.ones(200))  # the name of the tolerance depends on CuPy's version
        assert status == 0
        np.testing.assert_allclose(A @ x.get(), b, atol=1e-3)


@pytest.mark.parametrize("kind", PLANS)
def test_factors(kind):
    torch = pytest.importorskip("torch")
    A = matrix(dtype=np.float64)
    plan = wl.plan(A, device="cuda", **PLANS[kind])
    x = torch.randn(200, dtype=torch.float64, device="cuda")
    y = torch.randn(300, dtype=torch.float64, device="cuda")
    product = A @ x.cpu().numpy()
    for alpha, beta in ((2.0, 0.0), (1.0, 1.0), (-1.0, 0.5), (0.0, 2.0)):
        out = y.clone()
        assert plan(x, out=out, alpha=alpha, beta=beta) is out
        np.testing.assert_allclose(out.cpu().numpy(), alpha * product + beta * y.cpu().numpy(), rtol=1e-10, atol=1e-10)
    lost = torch.full_like(y, float("nan"))
    np.testing.assert_allclose(plan(x, out=lost, alpha=2.0).cpu().numpy(), 2 * product, rtol=1e-10, atol=1e-10)
    with pytest.raises(wl.errors.DeviceError):
        plan(x, out=torch.zeros(300, dtype=torch.float64), beta=1.0)
    cupy = pytest.importorskip("cupy")
    x, y = cupy.asarray(x), cupy.asarray(y)
    out = y.copy()
    assert plan(x, out=out, alpha=2.0, beta=-1.0) is out
    np.testing.assert_allclose(out.get(), 2 * product - y.get(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", PLANS)
def test_operands_are_promoted_on_the_device(kind):
    A = matrix(dtype=np.float64)
    plan = wl.plan(A, device="cuda", **PLANS[kind])
    x = np.arange(200) % 7 - 3.0
    libraries = []
    try:
        import torch

        kinds = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.complex64, torch.complex128)
        libraries.append([torch.from_numpy(x).cuda().to(kind) for kind in kinds])
    except ImportError:
        pass
    try:
        import cupy

        libraries.append([cupy.asarray(x).astype(kind) for kind in ("f4", "f2", "i8", "c8", "c16")])
    except ImportError:
        pass
    for operands in libraries:
        for given in operands:
            y = plan @ given
            assert type(y) is type(given)
            assert str(y.dtype).removeprefix("torch.") in ("float64", "complex128")
            on_host = y.cpu().numpy() if hasattr(y, "cpu") else y.get()
            np.testing.assert_allclose(on_host, A @ x, rtol=1e-12, atol=1e-12)


def test_calls_do_not_wait_for_the_gpu():
    """Of an operator, of a transpose, and with factors, once their plans are made."""
    torch = pytest.importorskip("torch")
    A = matrix()
    operator = wl.plan(A, device="cuda")
    x, z = torch.ones(200, device="cuda"), torch.ones(300, device="cuda")
    out = torch.ones(300, device="cuda")
    calls = [lambda: operator @ x, lambda: operator.T @ z, lambda: operator(x, out=out, alpha=2.0, beta=0.5)]
    for call in calls:
        call()
    torch.cuda.synchronize()
    for call in calls:
        torch.cuda._sleep(100_000_000)
        call()
        assert not torch.cuda.current_stream().query()
        torch.cuda.synchronize()
