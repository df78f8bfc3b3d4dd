"""Bias and ReLU of products with gradients: the same as PyTorch's own operations, also in compiled graphs."""

import numpy as np
import pytest

import warploom as wl

torch = pytest.importorskip("torch", minversion="2.5")

import warploom.torch as wt  # noqa: E402
from test_torch_autograd import KINDS, dense, make, matrix, operands, refused  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of what torch.func and torch.compile import
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def bias_for(k, dtype=torch.float64):
    return torch.randn(k, dtype=dtype, generator=torch.Generator().manual_seed(1), requires_grad=True)


@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients(kind, activation):
    plan = make(kind)
    X, values = operands(plan, kind)
    bias = bias_for(X.shape[1])

    def call(X, bias):
        return wt.spmm(plan, X, bias=bias, activation=activation)

    def call_with_values(X, values, bias):
        return wt.spmm(plan, X, values, bias=bias, activation=activation)

    assert torch.autograd.gradcheck(call, (X, bias))
    assert torch.autograd.gradcheck(call_with_values, (X, values, bias))
    assert torch.autograd.gradgradcheck(call_with_values, (X, values, bias))


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("vector", [True, False])
def test_the_same_as_operations_after_the_product(vector, reduce):
    plan = make("row")
    X, values = operands(plan, "row")
    given = X[:, 0] if vector else X
    bias = bias_for(plan.shape[0] if vector else 3)
    result = wt.spmm(plan, given, values, reduce=reduce, bias=bias, activation="relu")
    expected = torch.relu(wt.spmm(plan, given, values, reduce=reduce) + bias)
    torch.testing.assert_close(result, expected)
    weights = torch.randn_like(result)
    for found, known in zip(
        torch.autograd.grad((result * weights).sum(), (X, values, bias)),
        torch.autograd.grad((expected * weights).sum(), (X, values, bias)),
        strict=True,
    ):
        torch.testing.assert_close(found, known)


def test_against_a_dense_matrix():
    A, plan = matrix(), make("row")
    X, values = operands(plan, "row")
    bias = bias_for(3)
    module = wt.SpMM(plan, values.detach().clone(), bias=bias.detach().clone(), activation="relu")
    assert {name for name, _ in module.named_parameters()} == {"values", "bias"}
    assert "bias, relu" in repr(module)
    module(X).square().sum().backward()
    found = X.grad.clone(), module.values.grad, module.bias.grad
    X.grad = None
    torch.relu(dense(A, values) @ X + bias).square().sum().backward()
    for gradient, expected in zip(found, (X.grad, values.grad, bias.grad), strict=True):
        torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("kind", ["row", "column"])
def test_graphs_are_kept_whole(kind):
    plan = make(kind)
    X, values = operands(plan, kind)
    bias = bias_for(3)
    torch.library.opcheck(
        torch.ops.warploom.finished_product.default,
        (X, values, bias, plan._name, plan.shape[0], kind == "column", True),
    )

    def layer(X, values, bias):
        return wt.spmm(plan, X, values, bias=bias, activation="relu") * 2

    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    known = torch.autograd.grad(layer(X, values, bias).square().sum(), (X, values, bias))
    found = torch.autograd.grad(compiled(X, values, bias).square().sum(), (X, values, bias))
    for gradient, expected in zip(found, known, strict=True):
        torch.testing.assert_close(gradient, expected)


def test_functional_transforms():
    plan = make("row")
    X, _values = operands(plan, "row")
    bias = bias_for(3)
    several = torch.stack([X, 2 * X, -X]).detach()
    biases = torch.stack([bias, -bias, bias]).detach()
    found = torch.vmap(lambda X, b: wt.spmm(plan, X, bias=b, activation="relu"))(several, biases)
    expected = [wt.spmm(plan, x, bias=b, activation="relu") for x, b in zip(several, biases, strict=True)]
    torch.testing.assert_close(found, torch.stack(expected))


def test_what_does_not_fit_is_refused():
    plan = make("row")
    X, _ = operands(plan, "row")
    for bias in (torch.ones(4, dtype=torch.float64), torch.ones(1, 3, dtype=torch.float64)):
        refused(wl.errors.ShapeError, "bias", lambda bias=bias: wt.spmm(plan, X, bias=bias))
    refused(wl.errors.DtypeError, "bias", lambda: wt.spmm(plan, X, bias=torch.ones(3, dtype=torch.complex128)))
    refused(wl.errors.DtypeError, "bias", lambda: wt.spmm(plan, X, bias=np.ones(3)))
    refused(wl.errors.ParameterError, "activation", lambda: wt.spmm(plan, X, activation="tanh"))
    refused(wl.errors.ParameterError, "activation", lambda: wt.SpMM(plan, activation="tanh"))
