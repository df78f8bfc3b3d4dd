"""Products with gradients: they are right, graphs keep them whole, and what does not fit is refused."""

import gc
import io

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse import csr_array, random_array

import warploom as wl
from battery import battery

torch = pytest.importorskip("torch", minversion="2.5")

import warploom.torch as wt  # noqa: E402
from warploom.torch import _custom_operators as custom  # noqa: E402
from warploom.torch._operations import pattern_of  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of what torch.func and torch.compile import
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

KINDS = {
    "spmv": {"op": "spmv", "select": "spmv/none/csr/vector"},
    "row": {"k": 3, "select": "spmm/none/csr/row_split"},
    "column": {"k": 3, "layout": "column", "select": "spmm/lpt/csr/c_stationary"},
    "operator": {"select": "spmv/none/csr/vector", "candidates": ["*/none/csr/row_split", "*/none/csr/vector"]},
}


def matrix(m=9, n=7, dtype=np.float64):
    A = csr_array(random_array((m, n), density=0.3, rng=np.random.default_rng(0), format="csr")).astype(dtype)
    return csr_array((A.data, A.indices // 2 * 2, A.indptr), shape=A.shape)  # some entries repeat


def make(kind, A=None, **options):
    return wl.plan(matrix() if A is None else A, device="cpu", **KINDS[kind], **{"updatable": True} | options)


def operands(plan, kind, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    k = 1 if kind == "spmv" else 3
    X = torch.randn(plan.shape[1], k, dtype=dtype, generator=generator, requires_grad=True)
    values = torch.randn(plan.nnz, dtype=dtype, generator=generator, requires_grad=True)
    return X, values


def dense(A, values):
    """Return A as a dense tensor, through which torch differentiates."""
    rows = torch.from_numpy(np.repeat(np.arange(A.shape[0]), np.diff(A.indptr)))
    places = (rows, torch.from_numpy(A.indices.astype(np.int64)))
    return torch.zeros(A.shape, dtype=values.dtype).index_put(places, values, accumulate=True)


def refused(kind, argument, call, *arguments):
    with pytest.raises(kind) as caught:
        call(*arguments)
    assert caught.value.argument == argument
    return str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients(kind):
    plan = make(kind)
    X, values = operands(plan, kind)
    assert torch.autograd.gradcheck(lambda X: wt.spmm(plan, X), X)
    assert torch.autograd.gradcheck(lambda X, v: wt.spmm(plan, X, v), (X, values))
    assert torch.autograd.gradcheck(lambda v: wt.spmm(plan, X.detach(), v), values)
    assert torch.autograd.gradcheck(lambda x, v: wt.spmm(plan, x, v), (X.detach()[:, 0].requires_grad_(), values))
    assert torch.autograd.gradgradcheck(lambda X, v: wt.spmm(plan, X, v), (X, values))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_dense_product(kind, dtype):
    A = matrix(120, 90, np.dtype(str(dtype).removeprefix("torch.")))
    plan = make(kind, A)
    X, values = operands(plan, kind, dtype)
    weights = torch.randn(120, X.shape[1], dtype=dtype)
    expected = torch.autograd.grad((weights * (dense(A, values) @ X)).sum(), (X, values))
    for given in (X, X.t().contiguous().t()):  # in either layout
        found = torch.autograd.grad((weights * wt.spmm(plan, given, values)).sum(), (X, values))
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4 if dtype == torch.float32 else 1e-10, atol=1e-5)
    fixed = torch.autograd.grad((weights * wt.spmm(make(kind, A), X)).sum(), X)[0]
    torch.testing.assert_close(fixed, dense(A, torch.from_numpy(A.data)).T @ weights, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("k", [0, 1, 2, 3, 4, 5, 8, 33])
def test_sampled_products(k):
    A = matrix(40, 30)
    plan = make("row", A)
    X, Y = torch.randn(40, k, dtype=torch.float64), torch.randn(30, k, dtype=torch.float64)
    rows = np.repeat(np.arange(40), np.diff(A.indptr))
    for dtype, tolerance in ((torch.float64, 1e-13), (torch.float32, 1e-5)):
        found = custom.sampled_product(X.to(dtype), Y.to(dtype), plan._name, plan.nnz, False)
        np.testing.assert_allclose(found, (X[rows] * Y[A.indices]).sum(1), rtol=tolerance, atol=tolerance)
    half = wl._core.sampled_product(pattern_of(plan), X.half().numpy(), Y.half().numpy())
    exact = (X.half()[rows].double() * Y.half()[A.indices].double()).sum(1)
    np.testing.assert_allclose(half, exact, rtol=2e-3, atol=2e-3)
    for wrong in (X.numpy()[1:], X.numpy()[:, ::2] if k > 1 else X.numpy()[1:], X.numpy().astype(int)):
        with pytest.raises(wl.errors.WarploomError):
            wl._core.sampled_product(pattern_of(plan), wrong, Y.numpy())


@pytest.mark.parametrize("kind", KINDS)
def test_operations_are_as_torch_wants_them(kind):
    plan = make(kind)
    X, values = operands(plan, kind)
    column = kind == "column"
    torch.library.opcheck(custom.product, (X, None, plan._name, plan.shape[0], False, column))
    torch.library.opcheck(custom.product, (X, values, plan._name, plan.shape[0], False, column))
    Z = torch.randn(plan.shape[0], X.shape[1], dtype=torch.float64, requires_grad=True)
    torch.library.opcheck(custom.product, (Z, values, plan._name, plan.shape[1], True, column))
    torch.library.opcheck(custom.sampled_product, (Z, X, plan._name, plan.nnz, column))


@pytest.mark.parametrize("kind", KINDS)
def test_compiled_graphs_are_whole(kind):
    plan = make(kind)
    X, values = operands(plan, kind)

    def loss(X, values):
        return (torch.tanh(wt.spmm(plan, torch.sin(X), values)) ** 2).sum() + wt.spmm(plan, X, values).sum()

    expected = torch.autograd.grad(loss(X, values), (X, values))
    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager", dynamic=kind == "row")
    for _ in range(2):
        found = torch.autograd.grad(compiled(X, values), (X, values))
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other)
    if kind == "row":  # other sizes, the same graph
        wide = torch.randn(7, 11, dtype=torch.float64)
        torch.testing.assert_close(compiled(wide, values), loss(wide, values))


@pytest.mark.parametrize("compiled", [False, True])
def test_operators_multiply_transposes_as_they_are(compiled):
    """A linear layer with sparse weights, (A @ x.T).T: no copy in row-major order, the result is contiguous."""
    A = matrix(dtype=np.float32)
    operator = wl.plan(A, device="cpu", candidates=["*/none/csr/row_split"], updatable=True)

    def layer(x, values):
        return wt.spmm(operator, x.T, values).T

    x = torch.randn(5, A.shape[1], requires_grad=True)
    values = torch.from_numpy(A.data).requires_grad_()
    called = torch.compile(layer, fullgraph=True, backend="aot_eager") if compiled else layer
    y = called(x, values)
    assert y.is_contiguous()
    assert list(operator.plans) == ["up to 8 columns, column-major"]
    found = torch.autograd.grad(y.square().sum(), (x, values))
    expected = torch.nn.functional.linear(x, dense(A, values))
    torch.testing.assert_close(y, expected)
    for gradient, wanted in zip(found, torch.autograd.grad(expected.square().sum(), (x, values)), strict=True):
        torch.testing.assert_close(gradient, wanted)


def test_exported_graphs_have_the_product():
    plan = make("row", updatable=False)
    module = torch.nn.Sequential(torch.nn.Linear(4, 3, dtype=torch.float64), wt.SpMM(plan), torch.nn.ReLU())
    X = torch.randn(7, 4, dtype=torch.float64)
    exported = torch.export.export(module, (X,))
    assert any("warploom.product" in str(node.target) for node in exported.graph.nodes)
    torch.testing.assert_close(exported.module()(X), module(X))
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    torch.testing.assert_close(torch.export.load(file).module()(X), module(X))


def test_modules_train():
    A = matrix(30, 30)
    torch.manual_seed(0)
    plan = make("operator", A)
    trained = wt.SpMM(plan, torch.zeros(plan.nnz, dtype=torch.float64))
    assert [name for name, _ in trained.named_parameters()] == ["values"]
    assert not list(wt.SpMM(plan).parameters())
    assert "30 x 30" in repr(trained)
    X = torch.randn(30, 64, dtype=torch.float64)
    target = torch.from_numpy(A @ X.numpy())
    optimizer = torch.optim.Adam(trained.parameters(), lr=0.05)
    for _ in range(400):
        optimizer.zero_grad()
        loss = ((trained(X) - target) ** 2).mean()
        loss.backward()
        optimizer.step()
    assert loss < 1e-4
    torch.testing.assert_close(dense(A, trained.values.detach()), torch.from_numpy(A.toarray()), rtol=0, atol=0.05)
    assert set(trained.state_dict()) == {"values"}


def test_functional_transforms():
    plan = make("row")
    X, values = operands(plan, "row")
    X, values = X.detach(), values.detach()
    A = dense(matrix(), values)
    torch.testing.assert_close(torch.func.grad(lambda X: (wt.spmm(plan, X, values) ** 2).sum())(X), 2 * A.T @ (A @ X))
    jacobian = torch.func.jacrev(lambda x: wt.spmm(plan, x, values))(X[:, 0])
    torch.testing.assert_close(jacobian, A)
    vector_plan = make("spmv")
    jacobian = torch.func.jacrev(lambda v: wt.spmm(vector_plan, X[:, 0], v))(values)
    rows = np.repeat(np.arange(9), np.diff(matrix().indptr))
    expected = torch.zeros(9, plan.nnz, dtype=torch.float64)
    expected[rows, np.arange(plan.nnz)] = X[matrix().indices, 0]
    torch.testing.assert_close(jacobian, expected)
    torch.testing.assert_close(torch.vmap(lambda x: wt.spmm(vector_plan, x, values))(X.T), (A @ X).T)
    many = torch.randn(5, 7, 3, dtype=torch.float64)
    torch.testing.assert_close(torch.vmap(lambda X: wt.spmm(plan, X, values))(many), A @ many)
    several = torch.stack([values, 2 * values])
    torch.testing.assert_close(torch.vmap(lambda v: wt.spmm(plan, X, v))(several), torch.stack([A @ X, 2 * A @ X]))
    both = torch.vmap(lambda X, v: wt.spmm(plan, X, v))(torch.stack([X, X]), several)
    torch.testing.assert_close(both, torch.stack([A @ X, 2 * A @ X]))


def test_types_are_promoted_with_gradients():
    plan = make("row")
    X = torch.randn(7, 3, requires_grad=True)
    wt.spmm(plan, X).sum().backward()
    assert X.grad.dtype == torch.float32
    expected = np.repeat(matrix().toarray().sum(0)[:, None], 3, 1).astype(np.float32)
    torch.testing.assert_close(X.grad, torch.from_numpy(expected))


def test_bad_operands():
    plan, fixed = make("row"), make("row", updatable=False)
    X, values = operands(plan, "row")
    refused(wl.errors.ParameterError, "plan", wt.spmm, matrix(), X)
    refused(wl.errors.DtypeError, "X", wt.spmm, plan, X.detach().numpy())
    refused(wl.errors.DtypeError, "X", wt.spmm, plan, X.to(torch.complex128))
    refused(wl.errors.DtypeError, "X", wt.spmm, plan, X.detach().to_sparse())
    refused(wl.errors.DtypeError, "X", wt.spmm, make("row", matrix(dtype=np.float32)), X)
    refused(wl.errors.DeviceError, "X", wt.spmm, plan, X.to("meta"))
    for wrong in (X[1:], X[None], X[0, 0]):
        refused(wl.errors.ShapeError, "X", wt.spmm, plan, wrong)
    refused(wl.errors.ShapeError, "X", wt.spmm, make("spmv"), X)
    refused(wl.errors.ParameterError, "values", wt.spmm, fixed, X, values)
    refused(wl.errors.ShapeError, "values", wt.spmm, plan, X, values[1:])
    refused(wl.errors.ShapeError, "values", wt.spmm, plan, X, values[:, None])
    refused(wl.errors.DtypeError, "values", wt.spmm, plan, X, [1.0])


def test_values_that_change_between_the_passes_are_noticed():
    plan = make("row")
    X, values = operands(plan, "row")
    y = wt.spmm(plan, X)
    wt.spmm(plan, X, values)
    refused(wl.errors.ParameterError, "plan", y.sum().backward)
    first, second = wt.spmm(plan, X, values), wt.spmm(plan, X, 2 * values)  # each keeps its own
    (grad,) = torch.autograd.grad(first.sum(), X)
    torch.testing.assert_close(grad, (dense(matrix(), values).T @ torch.ones(9, 3, dtype=torch.float64)).detach())
    torch.autograd.grad(second.sum(), X)


def test_a_transpose_never_multiplies_with_the_values_of_another_product():
    plan = make("row")
    X, values = operands(plan, "row")
    ones = torch.ones(9, dtype=torch.float64)
    transposed = plan.T
    transposed @ ones
    wt.spmm(plan, X, values).sum().backward()
    refused(wl.errors.ParameterError, "plan", lambda: transposed @ ones)
    plan.update_values(values.detach())
    torch.testing.assert_close(transposed @ ones, dense(matrix(), values.detach()).T @ ones)


def test_a_matrix_that_changed_is_noticed():
    for with_values in (False, True):
        A = matrix()
        plan = make("row", A)
        X, values = operands(plan, "row")
        A.indices[:] = (A.indices + 1) % 7
        arguments = (plan, X, values) if with_values else (plan, X)
        refused(wl.errors.InvalidMatrixError, "A", lambda a=arguments: wt.spmm(*a).sum().backward())


def test_plans_that_are_gone():
    plan = make("row")
    name = plan._name
    X, _ = operands(plan, "row")
    y = wt.spmm(plan, X)
    del plan
    gc.collect()
    y.sum().backward()  # keeps it
    del y
    gc.collect()
    product = lambda: custom.product(X, None, name, 9, False, False)  # noqa: E731
    assert "gone" in refused(wl.errors.ParameterError, "plan", product)


def test_empty_matrices():
    for shape in ((0, 4), (4, 0), (3, 4)):
        plan = wl.plan(csr_array(shape), k=2, device="cpu", select="spmm/none/csr/row_split", updatable=True)
        X = torch.ones(shape[1], 2, dtype=torch.float64, requires_grad=True)
        values = torch.ones(0, dtype=torch.float64, requires_grad=True)
        y = wt.spmm(plan, X, values)
        assert y.shape == (shape[0], 2)
        y.sum().backward()
        assert not X.grad.any()
        assert values.grad.shape == (0,)


def test_no_dense_intermediate():
    """One of 4 x 10^10 numbers would not fit into memory."""
    A = csr_array(scipy.sparse.eye_array(200_000, format="csr"))
    plan = make("row", A)
    X = torch.ones(200_000, 2, dtype=torch.float64, requires_grad=True)
    values = torch.ones(200_000, dtype=torch.float64, requires_grad=True)
    wt.spmm(plan, X, values).sum().backward()
    assert (values.grad == 2).all()
    assert (X.grad == 1).all()


@pytest.mark.parametrize("name", [name for name, A in battery(np.float64).items() if np.isfinite(A.data).all()])
def test_gradients_of_awkward_matrices(name):
    A = battery(np.float64)[name]
    plan = make("operator", A)
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(A.shape[1], 5, dtype=torch.float64, generator=generator, requires_grad=True)
    values = torch.tensor(A.data, requires_grad=True)
    weights = torch.randn(A.shape[0], 5, dtype=torch.float64, generator=generator)
    expected = torch.autograd.grad((weights * (dense(A, values) @ X)).sum(), (X, values))
    found = torch.autograd.grad((weights * wt.spmm(plan, X, values)).sum(), (X, values))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", ["spmv", "row", "operator"])
def test_gradients_of_half_precision_are_those_of_float32_rounded(kind, dtype):
    A = matrix()
    plan = make(kind, A, dtype=str(dtype).removeprefix("torch."))
    X, values = operands(plan, kind, dtype)
    found = wt.spmm(plan, X, values)
    found.backward(torch.ones_like(found))
    wide_X, wide_values = (tensor.detach().float().requires_grad_() for tensor in (X, values))
    expected = wt.spmm(make(kind, A, dtype="float32"), wide_X, wide_values)
    expected.backward(torch.ones_like(expected))
    for ours, theirs in ((found, expected), (X.grad, wide_X.grad), (values.grad, wide_values.grad)):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours, theirs.to(dtype), rtol=torch.finfo(dtype).eps, atol=1e-3)
