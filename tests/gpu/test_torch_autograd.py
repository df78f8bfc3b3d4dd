"""Products with gradients on the GPU."""

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import warploom as wl
from capturing import capture

torch = pytest.importorskip("torch", minversion="2.5")

import warploom.torch as wt  # noqa: E402
from warploom.torch import _custom_operators as custom  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of what torch.compile imports
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

KINDS = {
    "spmv": {"op": "spmv", "select": "spmv/none/csr/vector"},
    "row": {"k": 3, "select": "spmm/none/csr/row_split"},
    "column": {"k": 3, "layout": "column", "select": "spmm/lpt/csr/c_stationary"},
    "operator": {"select": "spmv/none/csr/vector", "candidates": ["*/none/csr/row_split", "*/none/csr/vector"]},
}


def matrix(m=9, n=7, dtype=np.float64, density=0.3):
    A = csr_array(random_array((m, n), density=density, rng=np.random.default_rng(0), format="csr")).astype(dtype)
    return csr_array((A.data, A.indices // 2 * 2, A.indptr), shape=A.shape)  # some entries repeat


def on_gpu(A):
    return wl.CSR(*(torch.from_numpy(a).cuda() for a in (A.indptr, A.indices, A.data)), A.shape)


def make(kind, A=None, home="host", **options):
    A = matrix() if A is None else A
    given = on_gpu(A) if home == "torch" else A
    return wl.plan(given, device="cuda", **KINDS[kind], **{"updatable": True} | options)


def operands(plan, kind, dtype=torch.float64, k=3):
    k = 1 if kind == "spmv" else k
    X = torch.randn(plan.shape[1], k, dtype=dtype, device="cuda", requires_grad=True)
    values = torch.randn(plan.nnz, dtype=dtype, device="cuda", requires_grad=True)
    return X, values


def dense(A, values):
    rows = torch.from_numpy(np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))).cuda()
    places = (rows, torch.from_numpy(A.indices.astype(np.int64)).cuda())
    return torch.zeros(A.shape, dtype=values.dtype, device="cuda").index_put(places, values, accumulate=True)


@pytest.mark.parametrize("home", ["host", "torch"])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients(kind, home):
    plan = make(kind, home=home)
    X, values = operands(plan, kind)
    assert torch.autograd.gradcheck(lambda X: wt.spmm(plan, X), X)
    assert torch.autograd.gradcheck(lambda X, v: wt.spmm(plan, X, v), (X, values))
    assert torch.autograd.gradgradcheck(lambda X, v: wt.spmm(plan, X, v), (X, values))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("k", [1, 2, 4, 5, 8, 13, 16, 17, 32, 64, 100])
def test_sampled_products(k, dtype):
    A = matrix(500, 300, np.dtype(str(dtype).removeprefix("torch.")), density=0.05)
    A.indptr[100:103] = A.indptr[100]  # empty rows, then a long one
    for home in ("host", "torch"):
        plan = make("row", A, home)
        X, Y = (torch.randn(rows, k, dtype=dtype, device="cuda") for rows in A.shape)
        rows = np.repeat(np.arange(500), np.diff(A.indptr))
        expected = (X[rows].double() * Y[A.indices.astype(np.int64)].double()).sum(1)
        tolerance = 1e-4 if dtype == torch.float32 else 1e-12
        found = custom.sampled_product(X, Y, plan._name, plan.nnz, False)
        torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_dense_product(kind):
    A = matrix(400, 300, np.float32, 0.05)
    plan = make(kind, A)
    X, values = operands(plan, kind, torch.float32, 32)
    weights = torch.randn(400, X.shape[1], device="cuda")
    expected = torch.autograd.grad((weights * (dense(A, values) @ X)).sum(), (X, values))
    torch._dynamo.reset()
    compiled = torch.compile(lambda X, v: (weights * wt.spmm(plan, X, v)).sum(), fullgraph=True)
    for loss in (lambda X, v: (weights * wt.spmm(plan, X, v)).sum(), compiled):
        found = torch.autograd.grad(loss(X, values), (X, values))
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_operations_are_as_torch_wants_them():
    for kind in KINDS:
        plan = make(kind)
        X, values = operands(plan, kind)
        Z = torch.randn(plan.shape[0], X.shape[1], dtype=torch.float64, device="cuda", requires_grad=True)
        column = kind == "column"
        torch.library.opcheck(custom.product, (X, values, plan._name, plan.shape[0], False, column))
        torch.library.opcheck(custom.product, (Z, values, plan._name, plan.shape[1], True, column))
        torch.library.opcheck(custom.sampled_product, (Z, X, plan._name, plan.nnz, column))


def test_passes_run_on_the_current_stream_and_in_a_graph():
    A = matrix(400, 300, np.float32, 0.05)
    plan = make("row", A)
    X, values = operands(plan, "row", torch.float32, 16)

    def step():
        X.grad = values.grad = None
        wt.spmm(plan, X, values).square().sum().backward()

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    expected = X.grad.clone(), values.grad.clone()
    X.grad = values.grad = None
    with capture() as graph:
        wt.spmm(plan, X, values).square().sum().backward()
    graph.replay()
    torch.cuda.synchronize()
    for found, wanted in zip((X.grad, values.grad), expected, strict=True):
        torch.testing.assert_close(found, wanted)


def test_backward_allocates_outputs_only():
    A = matrix(20_000, 20_000, np.float32, 0.001)
    plan = make("row", A, "torch")
    X, values = operands(plan, "row", torch.float32, 64)
    wt.spmm(plan, X, values).sum().backward()  # makes and keeps the transpose
    X.grad = values.grad = None
    y = wt.spmm(plan, X, values)
    grad = torch.ones_like(y)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    y.backward(grad)
    outputs = X.nbytes + values.nbytes
    moved = 2 * values.nbytes  # values in the order of the transpose, and those before them
    assert torch.cuda.max_memory_allocated() - before <= outputs + moved + 2**20


def test_wrong_devices():
    plan = make("row")
    X, values = operands(plan, "row")
    for bad in ((X.cpu(),), (X, values.cpu())):
        with pytest.raises(wl.errors.DeviceError):
            wt.spmm(plan, *bad)
