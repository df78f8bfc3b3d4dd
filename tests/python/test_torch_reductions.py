"""Means, maxima and minima over the neighbours of every row, with gradients."""

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import warploom as wl
from warploom.errors import ParameterError

torch = pytest.importorskip("torch", minversion="2.5")

import warploom.torch as wt  # noqa: E402
from warploom.torch import _custom_operators as custom  # noqa: E402
from warploom.torch import _extremes  # noqa: E402
from warploom.torch._operations import neighbours_of  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of what torch.func and torch.compile import
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

CHOICES = {
    "spmv": {"op": "spmv", "select": "spmv/none/csr/vector"},
    "row": {"k": 3, "select": "spmm/none/csr/row_split"},
    "column": {"k": 3, "layout": "column", "select": "spmm/lpt/csr/c_stationary"},
    "operator": {"select": "spmv/none/csr/vector", "candidates": ["*/none/csr/row_split", "*/none/csr/vector"]},
}
REDUCTIONS = ["mean", "max", "min"]


def matrix(m=11, n=7, density=0.25, dtype=np.float64):
    """A matrix with empty rows, negative values and entries that repeat."""
    A = csr_array(random_array((m, n), density=density, rng=np.random.default_rng(0), format="csr")).astype(dtype)
    A = csr_array((A.data - dtype(0.4), A.indices // 2 * 2, A.indptr), shape=A.shape)
    counts = np.diff(A.indptr) * (np.arange(m) % 4 != 1)
    keep = np.repeat(np.arange(m) % 4 != 1, np.diff(A.indptr))
    return csr_array((A.data[keep], A.indices[keep], np.concatenate(([0], np.cumsum(counts)))), shape=A.shape)


def make(kind="row", A=None, **options):
    return wl.plan(matrix() if A is None else A, device="cpu", **CHOICES[kind], **{"updatable": True} | options)


def operands(plan, k=3, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(plan.shape[1], k, dtype=dtype, generator=generator, requires_grad=True)
    return X, torch.randn(plan.nnz, dtype=dtype, generator=generator, requires_grad=True)


def reference(A, X, values, reduce):
    """Row by row, as one would write it down; torch differentiates it."""
    rows = []
    for i in range(A.shape[0]):
        entries = slice(A.indptr[i], A.indptr[i + 1])
        products = values[entries, None] * X[torch.from_numpy(A.indices[entries].astype(np.int64))]
        if len(products) == 0:
            rows.append(0 * X.sum(0))
        else:
            rows.append(products.mean(0) if reduce == "mean" else getattr(products, reduce)(0).values)
    return torch.stack(rows)


@pytest.mark.parametrize("reduce", REDUCTIONS)
@pytest.mark.parametrize("kind", CHOICES)
def test_they_are_what_they_are_called(kind, reduce):
    A, plan = matrix(), make(kind)
    X, values = operands(plan, 1 if kind == "spmv" else 3)
    weights = torch.randn(A.shape[0], X.shape[1], dtype=torch.float64)
    for given in (None, values):
        used = torch.from_numpy(A.data) if given is None else given
        expected, found = reference(A, X, used, reduce), wt.spmm(plan, X, given, reduce=reduce)
        torch.testing.assert_close(found, expected)
        wanted = (X,) if given is None else (X, values)
        for one, other in zip(
            torch.autograd.grad((weights * found).sum(), wanted),
            torch.autograd.grad((weights * expected).sum(), wanted),
            strict=True,
        ):
            torch.testing.assert_close(one, other)
    vector = wt.spmm(plan, X[:, 0], values, reduce=reduce)
    torch.testing.assert_close(vector, reference(A, X[:, :1], values, reduce)[:, 0])


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_gradients_of_gradients(reduce):
    plan = make()
    X, values = operands(plan)
    assert torch.autograd.gradcheck(lambda X, v: wt.spmm(plan, X, v, reduce=reduce), (X, values))
    assert torch.autograd.gradgradcheck(lambda X, v: wt.spmm(plan, X, v, reduce=reduce), (X, values))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_they_are_those_of_torch(dtype):
    A = matrix(200, 150, dtype=np.dtype(str(dtype).removeprefix("torch.")).type)
    plan = make("row", A)
    X, _ = operands(plan, 5, dtype)
    B = torch.sparse_csr_tensor(torch.from_numpy(A.indptr).long(), torch.from_numpy(A.indices).long(), A.data, A.shape)
    for reduce, name in (("mean", "mean"), ("max", "amax"), ("min", "amin")):
        torch.testing.assert_close(wt.spmm(plan, X, reduce=reduce), torch.sparse.mm(B, X, name))


def check_type_of_two_bytes(reduce, dtype, of_tensors, device="cpu"):
    """Compare results and gradients of numbers whose products and sums are exact in every type."""
    A = matrix(60, 40)
    rng = np.random.default_rng(1)
    A.data[:] = rng.integers(-4, 5, A.nnz) / 2
    arrays = (torch.from_numpy(A.indptr), torch.from_numpy(A.indices), torch.from_numpy(A.data).to(dtype))
    given = wl.CSR(*(array.to(device) for array in arrays), A.shape) if of_tensors else A
    plan = wl.plan(given, k=3, device=device, dtype=str(dtype).removeprefix("torch."), updatable=True)
    X = torch.from_numpy(rng.integers(-3, 4, (40, 3)) / 4)
    values = torch.from_numpy(rng.integers(-3, 4, A.nnz) / 2)
    of_every_row = reduce if reduce != "sum" else "mean"
    lengths = torch.from_numpy(np.diff(A.indptr)).double()[:, None] if reduce == "sum" else 1
    for used in (None, values):
        wide = [tensor.clone().requires_grad_() for tensor in (X, torch.from_numpy(A.data) if used is None else used)]
        expected = lengths * reference(A, *wide, of_every_row)
        narrow = [tensor.to(device, dtype).requires_grad_() for tensor in ((X,) if used is None else (X, used))]
        found = wt.spmm(plan, *narrow, reduce=reduce)
        assert (found.dtype, found.device.type) == (dtype, device)
        torch.testing.assert_close(found.cpu(), expected.to(dtype))
        gradients = torch.autograd.grad(found.sum(), narrow)
        for one, other in zip(gradients, torch.autograd.grad(expected.sum(), wide), strict=False):
            assert one.dtype == dtype
            torch.testing.assert_close(one.cpu(), other.to(dtype), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("of_tensors", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("reduce", ["sum", *REDUCTIONS])
def test_types_of_two_bytes(reduce, dtype, of_tensors):
    check_type_of_two_bytes(reduce, dtype, of_tensors)


@pytest.mark.parametrize("k", [0, 1, 5])
@pytest.mark.parametrize("at_once", [1, 7, 60, 1 << 20])
def test_parts_give_what_the_kernel_gives(at_once, k):
    """The code for GPUs, on the CPU: bit for bit the same, and the same entries."""
    A = matrix(60, 40)
    A = csr_array(np.vstack([A.toarray(), np.full((1, 40), 0.5), np.zeros((2, 40))]))  # a full row, and empty ones
    plan = make("row", A)
    X, values = (operand.detach() for operand in operands(plan, k))
    X[::3] = 1  # many are equal
    values[::2] = 1
    neighbours = neighbours_of(plan)
    expected = _extremes._by_kernel(neighbours, values, X)
    found = _extremes._in_parts(neighbours, values, X, at_once)
    assert torch.equal(found[0], expected[0])
    assert torch.equal(found[1], expected[1])
    X[:] = -torch.inf
    values[:] = 1
    for one, other in zip(
        _extremes._in_parts(neighbours, values, X, at_once), _extremes._by_kernel(neighbours, values, X), strict=True
    ):
        assert torch.equal(one, other)


@pytest.mark.parametrize("parts", [False, True])
def test_of_equal_ones_the_first_has_the_gradient(parts, monkeypatch):
    if parts:
        monkeypatch.setattr(_extremes, "_has_kernel", lambda: False)
    plan = make("row", csr_array(([1.0, 1.0, 1.0], [2, 0, 1], [0, 3]), shape=(1, 3)))
    X = torch.ones(3, 1, dtype=torch.float64, requires_grad=True)
    wt.spmm(plan, X, reduce="max").sum().backward()
    assert X.grad.flatten().tolist() == [0, 0, 1]  # the first as A has them
    X.grad = None
    wt.spmm(plan, X, reduce="min").sum().backward()
    assert X.grad.flatten().tolist() == [0, 0, 1]


@pytest.mark.parametrize("parts", [False, True])
def test_nan_is_seen(parts, monkeypatch):
    if parts:
        monkeypatch.setattr(_extremes, "_has_kernel", lambda: False)
    A = matrix()
    plan = make("row", A)
    X, _ = operands(plan)
    with torch.no_grad():
        X[2] = torch.nan
    touched = np.array([2 in A.indices[A.indptr[i] : A.indptr[i + 1]] for i in range(A.shape[0])])
    assert touched.any()
    assert not touched.all()
    for reduce in REDUCTIONS:
        found = wt.spmm(plan, X, reduce=reduce)
        assert (found.isnan().all(1).numpy() == touched).all()
        assert torch.autograd.grad(found.nansum(), X)[0].shape == X.shape


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (3, 3)])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_matrices_without_entries(shape, reduce):
    plan = wl.plan(csr_array(shape), k=2, device="cpu", select="spmm/none/csr/row_split", updatable=True)
    X, values = operands(plan, 2)
    for given in (None, values):
        found = wt.spmm(plan, X, given, reduce=reduce)
        assert found.shape == (shape[0], 2)
        assert not found.any()
        assert not torch.autograd.grad(found.sum(), X)[0].any()


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_transposes_have_them_too(reduce):
    A = matrix()
    plan = make("operator", updatable=False)
    X = torch.randn(11, 2, dtype=torch.float64, requires_grad=True)
    transposed = csr_array(A.T.tocsr())
    expected = reference(transposed, X, torch.from_numpy(transposed.data), reduce)
    torch.testing.assert_close(wt.spmm(plan.T, X, reduce=reduce), expected)


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_operations_are_as_torch_wants_them(reduce):
    plan = make()
    X, values = operands(plan)
    rows = plan.shape[0]
    torch.library.opcheck(custom.maximum, (X, None, plan._name, rows))
    torch.library.opcheck(custom.maximum, (X, values, plan._name, rows))
    torch.library.opcheck(custom.inverse_counts, (X.detach(), plan._name, rows))
    entries = custom.maximum(X, None, plan._name, rows)[1]
    without_gradients = ("test_schema", "test_faketensor")
    for with_values in (False, True):
        arguments = (entries, X.detach(), plan._name, with_values)
        torch.library.opcheck(custom.winners, arguments, test_utils=without_gradients)


@pytest.mark.parametrize("kind", CHOICES)
def test_compiled_graphs_are_whole(kind):
    plan = make(kind)
    X, values = operands(plan, 1 if kind == "spmv" else 3)

    def loss(X, values):
        parts = [wt.spmm(plan, torch.sin(X), values, reduce=reduce) for reduce in REDUCTIONS]
        return sum((torch.tanh(part) ** 2).sum() for part in parts)

    def constant(X):
        return sum(wt.spmm(constant_plan, X, reduce=reduce).square().sum() for reduce in REDUCTIONS)

    constant_plan = make(kind)
    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(
        torch.autograd.grad(compiled(X, values), (X, values)), torch.autograd.grad(loss(X, values), (X, values))
    )
    compiled = torch.compile(constant, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(X), X), torch.autograd.grad(constant(X), X))


def test_functional_transforms():
    A, plan = matrix(), make()
    X, values = (operand.detach() for operand in operands(plan))
    for reduce in REDUCTIONS:

        def total(X, values, reduce=reduce):
            return wt.spmm(plan, X, values, reduce=reduce).square().sum()

        expected = torch.func.grad(lambda X, v, reduce=reduce: reference(A, X, v, reduce).square().sum(), (0, 1))
        torch.testing.assert_close(torch.func.grad(total, (0, 1))(X, values), expected(X, values))
        many = torch.randn(4, 7, 3, dtype=torch.float64)
        found = torch.vmap(lambda X, reduce=reduce: wt.spmm(plan, X, values, reduce=reduce))(many)
        torch.testing.assert_close(found, torch.stack([reference(A, X, values, reduce) for X in many]))


def test_values_that_were_updated():
    A = matrix()
    operator, plan = make("operator"), make()
    X, _ = operands(plan)
    data = np.random.default_rng(1).standard_normal(A.nnz)
    expected = {reduce: reference(A, X, torch.from_numpy(data), reduce) for reduce in REDUCTIONS}
    for multiplier in (operator, plan):
        wt.spmm(multiplier, X, reduce="max")
        multiplier.update_values(data)
        torch.testing.assert_close(wt.spmm(multiplier, X, reduce="mean"), expected["mean"])
    torch.testing.assert_close(wt.spmm(operator, X, reduce="max"), expected["max"])
    torch.testing.assert_close(wt.spmm(operator.T.T, X, reduce="min"), expected["min"])
    with pytest.raises(ParameterError, match="give them to spmm as `values`") as refused:
        wt.spmm(plan, X, reduce="max")
    assert refused.value.argument == "plan"
    torch.testing.assert_close(wt.spmm(plan, X, torch.from_numpy(data), reduce="max"), expected["max"])


def test_maxima_with_values_need_no_updatable_plan():
    plan = make("row", updatable=False)
    X, values = operands(plan)
    torch.testing.assert_close(wt.spmm(plan, X, values, reduce="max"), reference(matrix(), X, values, "max"))
    with pytest.raises(ParameterError, match="updatable=True"):
        wt.spmm(plan, X, values, reduce="mean")


def test_modules():
    plan = make()
    X, values = operands(plan)
    module = wt.SpMM(plan, values.detach().clone(), reduce="max")
    torch.testing.assert_close(module(X), wt.spmm(plan, X, values, reduce="max"))
    assert repr(module).endswith(", max)")
    for call in (lambda: wt.spmm(plan, X, reduce="median"), lambda: wt.SpMM(plan, reduce="median")):
        with pytest.raises(ParameterError, match="sum, mean, max, min, got 'median'") as refused:
            call()
        assert refused.value.argument == "reduce"
