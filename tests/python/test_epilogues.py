"""Products with factors, a bias, an activation and a dot product on the CPU: results, and what is refused."""

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import warploom as wl
from warploom import _bfloat16

KINDS = {
    "spmv": {"op": "spmv", "select": "spmv/none/csr/vector"},
    "row": {"k": 4, "select": "spmm/none/csr/row_split"},
    "column": {"k": 4, "layout": "column", "select": "spmm/lpt/csr/c_stationary"},
    "operator": {"select": "spmv/none/csr/vector", "candidates": ["*/none/csr/row_split", "*/none/csr/vector"]},
}
DTYPES = ("float16", "bfloat16", "float32", "float64")
M, N = 60, 45


def matrix(shape=(M, N), dtype=np.float64):
    return csr_array(random_array(shape, density=0.2, rng=np.random.default_rng(0), format="csr")).astype(dtype)


def make(kind, A=None, **options):
    return wl.plan(matrix() if A is None else A, device="cpu", **KINDS[kind], **options)


def random(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape)


def finished(product, C=0.0, alpha=1.0, beta=0.0, bias=0.0, activation=None):
    result = alpha * product + beta * C + bias
    return np.maximum(result, 0) if activation else result


def refused(kind, argument, call, *arguments, **keywords):
    with pytest.raises(kind) as caught:
        call(*arguments, **keywords)
    assert caught.value.argument == argument


@pytest.mark.parametrize("vector", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_every_combination(kind, vector):
    if kind == "spmv" and not vector:
        pytest.skip("one vector")
    A, plan = matrix(), make(kind)
    order = "F" if kind == "column" else "C"
    B = random(N) if vector else np.asarray(random(N, 4), order=order)
    C = random(M, seed=2) if vector else np.asarray(random(M, 4, seed=2), order=order)
    bias = random(M if vector else 4, seed=3)
    for alpha, beta in ((1.0, 0.0), (-0.5, 0.0), (1.0, 1.0), (2.0, -0.5), (0.0, 2.0), (0.0, 0.0)):
        for options in ({}, {"bias": bias}, {"activation": "relu"}, {"bias": bias, "activation": "relu"}):
            expected = finished(A @ B, C, alpha, beta, **options)
            out = C.copy(order)
            assert plan(B, out=out, alpha=alpha, beta=beta, **options) is out
            np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)
            if beta == 0:
                out[...] = np.nan
                plan(B, out=out, alpha=alpha, **options)
                np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)
                np.testing.assert_allclose(plan(B, alpha=alpha, **options), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_types(dtype):
    kind = _bfloat16.as_dtype(dtype)
    plan = wl.plan(matrix(), k=4, dtype=dtype, device="cpu", select="spmm/none/csr/row_split")
    B, bias = (_bfloat16.cast(random(*shape), kind) for shape in ((N, 4), (4,)))
    C = _bfloat16.cast(random(M, 4, seed=2), kind)
    wide = np.dtype(np.float64)
    product = _bfloat16.cast(_bfloat16.cast(matrix().data, kind), wide)
    A = csr_array((product, matrix().indices, matrix().indptr), shape=(M, N))
    expected = finished(
        A @ _bfloat16.cast(B, wide), _bfloat16.cast(C, wide), 1.5, 0.5, _bfloat16.cast(bias, wide), "relu"
    )
    out = C.copy()
    plan(B, out=out, alpha=1.5, beta=0.5, bias=bias, activation="relu")
    tolerance = 40 * _bfloat16.eps_of(kind)
    np.testing.assert_allclose(_bfloat16.cast(out, wide), expected, rtol=tolerance, atol=tolerance)
    assert out.dtype == kind


def test_operands_of_other_kinds():
    torch = pytest.importorskip("torch")
    A, plan = matrix(), make("row")
    B, C, bias = random(N, 4), random(M, 4, seed=2), random(8, seed=3)[::2]
    expected = finished(A @ B, 0, bias=bias, activation="relu")
    for given, b in ((B, bias), (B.tolist(), bias.tolist()), (torch.from_numpy(B), torch.from_numpy(bias.copy()))):
        np.testing.assert_allclose(np.asarray(plan(given, bias=b, activation="relu")), expected)
    whole = np.full((M, 12), 7.0)
    out = whole[:, 2:6]
    out[...] = C
    plan(B, out=out, beta=2.0, bias=bias.astype(np.float32))
    np.testing.assert_allclose(out, A @ B + 2 * C + bias.astype(np.float32))
    assert (whole[:, :2] == 7).all()
    assert (whole[:, 6:] == 7).all()
    # Out in the other layout, or one that shares memory with B, is added to all the same.
    other = np.asfortranarray(C)
    assert plan(B, out=other, alpha=2.0, beta=1.0, bias=bias, activation="relu") is other
    np.testing.assert_allclose(other, finished(A @ B, C, 2.0, 1.0, bias, "relu"))
    square = matrix((N, N))
    x = random(N)
    y = x.copy()
    wl.plan(square, "spmv", device="cpu", select="spmv/none/csr/vector")(y, out=y, beta=1.0, bias=x)
    np.testing.assert_allclose(y, square @ x + 2 * x)
    z = B + 1j
    np.testing.assert_allclose(plan(z, alpha=2.0, bias=bias), 2 * (A @ z) + bias)


def test_nan_stays():
    plan = make("row")
    B = random(N, 4)
    B[:, 1] = np.nan
    C = plan(B, activation="relu")
    assert np.isnan(C[np.diff(matrix().indptr) > 0, 1]).all()
    assert not np.isnan(C[:, 0]).any()
    assert (C[:, 0] >= 0).all()
    assert not plan(B, alpha=0.0).any()


@pytest.mark.parametrize("kind", KINDS)
def test_empty(kind):
    for shape in ((0, 5), (5, 0), (0, 0)):
        plan = make(kind, csr_array(shape, dtype=np.float64))
        x, bias = np.ones(shape[1]), random(shape[0])
        np.testing.assert_array_equal(plan(x, bias=bias, activation="relu"), np.maximum(bias, 0))
        if kind != "spmv":
            assert plan(np.ones((shape[1], 0)), bias=np.ones(0)).shape == (shape[0], 0)


def test_what_does_not_fit_is_refused():
    plan, B, C = make("row"), random(N, 4), random(M, 4)
    refused(wl.errors.ShapeError, "bias", plan, B, bias=np.ones(3))
    refused(wl.errors.ShapeError, "bias", plan, B, bias=np.ones((1, 4)))
    refused(wl.errors.ShapeError, "bias", plan, B, bias=1.0)
    refused(wl.errors.DtypeError, "bias", plan, B, bias=np.ones(4) + 1j)
    refused(wl.errors.ParameterError, "activation", plan, B, activation="gelu")
    refused(wl.errors.ParameterError, "activation", plan, B + 1j, activation="relu")
    refused(wl.errors.ParameterError, "beta", plan, B, beta=1.0, bias=np.ones(4))
    refused(wl.errors.ParameterError, "out", plan, B, out=C, bias=C[0])
    single = wl.plan(matrix(dtype=np.float32), k=4, device="cpu", select="spmm/none/csr/row_split")
    refused(wl.errors.DtypeError, "bias", single, B.astype(np.float32), bias=np.ones(4))
    torch = pytest.importorskip("torch")
    refused(wl.errors.ParameterError, "bias", plan, torch.from_numpy(B), bias=torch.ones(4, requires_grad=True))


# ----- dot products -----


@pytest.mark.parametrize("kind", KINDS)
def test_product_and_dot(kind):
    A = matrix((N, N))
    plan, x = make(kind, A), random(N)
    y, dot = plan.product_and_dot(x)
    np.testing.assert_allclose(y, A @ x)
    assert dot.shape == ()
    assert dot.dtype == np.float64
    np.testing.assert_allclose(dot, x @ (A @ x))
    out, value = np.full(N, np.nan), np.full(1, np.nan)
    given = plan.product_and_dot(x, out, value)
    assert given[0] is out
    assert given[1] is value
    np.testing.assert_array_equal(out, y)
    np.testing.assert_array_equal(value, [dot])
    torch = pytest.importorskip("torch")
    y, dot = plan.product_and_dot(torch.from_numpy(x))
    assert isinstance(y, torch.Tensor)
    assert dot.shape == ()
    assert dot.dtype == torch.float64
    np.testing.assert_array_equal(dot.item(), value[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_type_of_the_dot_product(dtype):
    kind = _bfloat16.as_dtype(dtype)
    plan = wl.plan(matrix((N, N)), "spmv", dtype=dtype, device="cpu", select="spmv/none/csr/vector")
    x = _bfloat16.cast(np.full(N, 100.0), kind)
    y, dot = plan.product_and_dot(x)
    wide = np.dtype(np.float64)
    assert dot.dtype == (np.float64 if dtype == "float64" else np.float32)
    np.testing.assert_allclose(float(dot), _bfloat16.cast(x, wide) @ _bfloat16.cast(y, wide), rtol=1e-6)


def test_dot_products_are_summed_in_one_order():
    n = 50_000
    A = csr_array((np.ones(n), np.arange(n), np.arange(n + 1)), shape=(n, n))
    plan, x = wl.plan(A, "spmv", device="cpu", select="spmv/none/csr/vector"), random(n)
    assert len({float(plan.product_and_dot(x)[1]) for _ in range(5)}) == 1
    assert plan.product_and_dot(np.ones(n))[1] == n
    empty = wl.plan(csr_array((0, 0)), "spmv", device="cpu", select="spmv/none/csr/vector")
    assert empty.product_and_dot(np.ones(0))[1] == 0


def test_what_has_no_dot_product_is_refused():
    refused(wl.errors.ShapeError, "A", make("spmv").product_and_dot, random(N))
    refused(wl.errors.ShapeError, "A", make("operator").product_and_dot, random(N))
    plan, x = make("spmv", matrix((N, N))), random(N)
    refused(wl.errors.ShapeError, "x", plan.product_and_dot, random(N, 1))
    refused(wl.errors.ShapeError, "x", plan.product_and_dot, random(N + 1))
    refused(wl.errors.ShapeError, "out", plan.product_and_dot, x, np.ones((N, 1)))
    refused(wl.errors.ParameterError, "out", plan.product_and_dot, x, x)
    refused(wl.errors.ShapeError, "dot", plan.product_and_dot, x, None, np.ones(2))
    refused(wl.errors.DtypeError, "dot", plan.product_and_dot, x, None, np.ones(1, np.float32))
    refused(wl.errors.DtypeError, "B", plan.product_and_dot, x + 1j)
