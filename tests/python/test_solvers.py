"""Solvers with plans: they solve, and refuse what does not fit."""

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from scipy.sparse import csr_array

import warploom as wl


def spd(n=300, dtype=np.float64):
    A = scipy.sparse.random_array((n, n), density=0.02, rng=np.random.default_rng(0), format="csr")
    return csr_array(A + A.T + 12 * scipy.sparse.eye_array(n)).astype(dtype)


def make(A, **options):
    return wl.plan(A, device="cpu", **{"op": "spmv", "select": "spmv/none/csr/vector"} | options)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cg_solves(dtype):
    A = spd(dtype=dtype)
    b = np.random.default_rng(1).standard_normal(300).astype(dtype)
    tolerance = 1e-5 if dtype == np.float32 else 1e-10
    for plan in (make(A), wl.plan(A, device="cpu", select="spmv/none/csr/vector")):
        kept = b.copy()
        x, info = wl.solvers.cg(plan, b, rtol=tolerance)
        assert info == 0
        assert x.dtype == dtype
        assert x.shape == (300,)
        assert np.linalg.norm(b - A @ x) <= 3 * tolerance * np.linalg.norm(b)
        np.testing.assert_array_equal(b, kept)
    expected, _ = scipy.sparse.linalg.cg(A, b, rtol=tolerance)
    np.testing.assert_allclose(x, expected, rtol=0, atol=10 * tolerance * abs(expected).max())


def test_an_operator_solves_in_the_type_of_the_vector():
    A, b = spd(dtype=np.float32), np.ones(300)
    x, info = wl.solvers.cg(wl.plan(A, device="cpu"), b, rtol=1e-10)
    assert (info, x.dtype) == (0, np.float64)
    assert np.linalg.norm(b - A.astype(np.float64) @ x) <= 3e-10 * np.linalg.norm(b)


def test_where_it_starts_and_ends():
    A, b = spd(), np.ones(300)
    plan = make(A)
    x, info = wl.solvers.cg(plan, b, rtol=1e-12)
    assert info == 0
    again, info = wl.solvers.cg(plan, b, x, rtol=1e-8, maxiter=0)
    assert info == 0
    np.testing.assert_array_equal(again, x)
    _, info = wl.solvers.cg(plan, b, rtol=1e-12, maxiter=3)
    assert info == 3
    zero, info = wl.solvers.cg(plan, np.zeros(300))
    assert info == 0
    assert not zero.any()
    loose, info = wl.solvers.cg(plan, b, rtol=0, atol=100.0)
    assert info == 0
    assert not loose.any()
    negative, info = wl.solvers.cg(make(csr_array(-A)), b)  # no step is taken
    assert info == 1
    assert not negative.any()
    x, info = wl.solvers.cg(plan, np.where(np.arange(300) == 7, np.nan, b))
    assert info == 1
    assert not x.any()
    with np.errstate(invalid="ignore"):
        x, info = wl.solvers.cg(plan, np.inf * b)
    assert info == 1
    assert not x.any()
    # The second direction shows that the matrix is indefinite; the first step was fine.
    indefinite = make(csr_array(np.diag([1.0, -0.5])))
    x, info = wl.solvers.cg(indefinite, np.array([1.0, 1.0]))
    assert info == 2
    np.testing.assert_allclose(x, [4.0, 4.0])
    x, info = wl.solvers.cg(make(csr_array((0, 0))), np.ones(0))
    assert info == 0
    assert x.shape == (0,)


def test_cg_of_tensors():
    torch = pytest.importorskip("torch")
    A = spd()
    b = torch.ones(300, dtype=torch.float64)
    x, info = wl.solvers.cg(make(A), b, rtol=1e-10)
    assert info == 0
    assert isinstance(x, torch.Tensor)
    np.testing.assert_allclose(A @ x.numpy(), b.numpy(), atol=1e-8)


def test_what_does_not_fit_is_refused():
    A, b = spd(), np.ones(300)
    plan = make(A)
    wide = csr_array(scipy.sparse.random_array((5, 6), density=0.5, rng=np.random.default_rng(0)))
    half = make(A, dtype="float16", select="spmv/none/csr/vector")
    for kind, argument, arguments in (
        (wl.errors.ParameterError, "plan", (A, b)),
        (wl.errors.ParameterError, "plan", (make(A, op="spmm", k=1, select="spmm/none/csr/row_split"), b)),
        (wl.errors.ShapeError, "plan", (make(wide), np.ones(6))),
        (wl.errors.DtypeError, "plan", (half, b.astype(np.float16))),
        (wl.errors.ShapeError, "b", (plan, np.ones(299))),
        (wl.errors.ShapeError, "b", (plan, np.ones((300, 1)))),
        (wl.errors.ShapeError, "x0", (plan, b, np.ones(3))),
        (wl.errors.DtypeError, "b", (plan, 1j * b)),
    ):
        with pytest.raises(kind) as caught:
            wl.solvers.cg(*arguments)
        assert caught.value.argument == argument
    for argument, wrong in (("rtol", -1e-9), ("rtol", np.nan), ("atol", -1.0), ("maxiter", -1), ("maxiter", 2.5)):
        with pytest.raises(wl.errors.ParameterError) as caught:
            wl.solvers.cg(plan, b, **{argument: wrong})
        assert caught.value.argument == argument
