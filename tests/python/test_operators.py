"""Plans and operators as linear operators: SciPy's solvers, transposes, factors, and operands that are promoted."""

import gc
import pickle
import subprocess
import sys
import weakref

import hypothesis
import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg as sla
from scipy.sparse import csr_array, random_array

import warploom as wl
from battery import battery
from products import assert_product, operand
from strategies import csr_matrices
from warploom import _multiplier
from warploom._matrix import as_csr
from warploom.plan import _Settings

SPMV, SPMM = "spmv/none/csr/vector", "spmm/none/csr/row_split"


def matrix(m=60, n=45, dtype=np.float64, seed=0):
    return csr_array(random_array((m, n), density=0.15, rng=np.random.default_rng(seed), format="csr")).astype(dtype)


def symmetric(n=80):
    A = matrix(n, n)
    return csr_array(A + A.T + 10 * scipy.sparse.eye_array(n))


def make(A, kind, **options):
    """Return a plan for SpMV or SpMM, or an operator."""
    choice = {
        "spmv": {"op": "spmv", "select": SPMV},
        "spmm": {"k": 4, "select": SPMM},
        "spmm-column": {"k": 4, "layout": "column", "select": SPMM},
        "operator": {"candidates": ["*/none/csr/row_split", "*/none/csr/vector"], "select": SPMV},
    }[kind]
    return wl.plan(A, device="cpu", **choice, **options)


KINDS = ["spmv", "spmm", "spmm-column", "operator"]


def refused(kind, argument, call, *arguments, **options):
    with pytest.raises(kind) as caught:
        call(*arguments, **options)
    assert caught.value.argument == argument
    return str(caught.value)


def close(actual, expected, dtype=np.float64):
    np.testing.assert_allclose(actual, expected, rtol=500 * np.finfo(dtype).eps, atol=500 * np.finfo(dtype).eps)


# ----- as SciPy's operators -----


@pytest.mark.parametrize("kind", KINDS)
def test_methods_of_scipys_operators(kind):
    A = matrix()
    plan, reference = make(A, kind), sla.aslinearoperator(A)
    assert isinstance(plan, sla.LinearOperator)
    assert sla.aslinearoperator(plan) is plan
    assert (plan.shape, plan.dtype, plan.ndim) == (reference.shape, reference.dtype, reference.ndim)
    x, X = operand((45, 1), np.float64, "row"), operand((45, 3), np.float64, "row")
    z, Z = operand((60, 1), np.float64, "row"), operand((60, 3), np.float64, "row")
    for name, given in (
        ("matvec", x),
        ("matvec", x[:, 0]),
        ("matmat", X),
        ("matmat", np.asfortranarray(X)),
        ("matmat", X[:, :1]),
        ("rmatvec", z),
        ("rmatvec", z[:, 0]),
        ("rmatmat", Z),
        ("dot", x[:, 0]),
        ("dot", X),
    ):
        got, expected = getattr(plan, name)(given), getattr(reference, name)(given)
        assert got.shape == expected.shape, name
        close(got, expected)
    close(plan.H @ z[:, 0], A.T @ z[:, 0])
    close(plan.adjoint().matvec(z[:, 0]), A.T @ z[:, 0])
    close(plan.transpose().matmat(Z), A.T @ Z)
    close(plan.T.rmatvec(x[:, 0]), A @ x[:, 0])
    close((plan.T @ (plan @ x[:, 0])), A.T @ (A @ x[:, 0]))
    for wrong in (x[:-1], x[:-1, 0]):
        with pytest.raises(ValueError, match="dimension mismatch"):
            plan.matvec(wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_sums_scalings_and_products_of_operators(kind):
    A, C = symmetric(), symmetric()
    plan, other = make(A, kind), make(C, "operator")
    x, X = operand((80, 1), np.float64, "row")[:, 0], operand((80, 3), np.float64, "row")
    close((2 * plan) @ x, 2 * (A @ x))
    close((plan * 2).matvec(x), 2 * (A @ x))
    close((-plan).matmat(X), -(A @ X))
    close((plan / 4) @ x, A @ x / 4)
    close((plan + other).matvec(x), (A + C) @ x)
    close((plan - sla.aslinearoperator(C)).matmat(X), (A - C) @ X)
    close((plan @ other).matvec(x), A @ (C @ x))
    close((plan * other) @ X, A @ (C @ X))
    close((sla.aslinearoperator(C) @ plan).matvec(x), C @ (A @ x))
    close((plan**3) @ x, A @ (A @ (A @ x)))
    close((2 * plan + other).T.matvec(x), (2 * A + C).T @ x)
    close(plan * x, A @ x)
    with pytest.raises(ValueError, match="Scalar"):
        3 @ plan


@pytest.mark.parametrize("kind", KINDS)
def test_operand_on_the_left(kind):
    A = matrix()
    plan = make(A, kind)
    for x in (
        operand((5, 60), np.float64, "row"),
        operand((5, 60), np.float64, "column"),
        np.ones(60),
        np.ones((1, 60)),
    ):
        if kind == "spmv" and x.ndim == 2 and x.shape[0] > 1:
            refused(wl.errors.ShapeError, "B", lambda x=x: x @ plan)
            continue
        close(x @ plan, x @ A)
        close(x * plan, x @ A)
    close([1.0] * 60 @ plan, np.ones(60) @ A)
    for wrong in (np.ones(45), np.ones((60, 5)), np.ones((2, 2, 60))):
        refused(wl.errors.ShapeError, "x", lambda x=wrong: x @ plan)


def test_tensor_on_the_left_and_in_scipys_methods():
    torch = pytest.importorskip("torch")
    A = matrix()
    plan = make(A, "operator")
    x = torch.randn(3, 60, dtype=torch.float64)
    for y, expected in (
        (x @ plan, x.numpy() @ A),
        (x[0] @ plan, x[0].numpy() @ A),
        (plan.rmatmat(x.T), A.T @ x.numpy().T),
        (plan.rmatvec(x[0]), A.T @ x[0].numpy()),
        (plan.T.matvec(x[0]), A.T @ x[0].numpy()),
        (plan.T.dot(x[0]), A.T @ x[0].numpy()),
    ):
        assert isinstance(y, torch.Tensor)
        close(y.numpy(), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_scipys_solvers(kind):
    A = symmetric()
    plan, b = make(A, kind), np.arange(1.0, 81.0)
    expected = np.linalg.solve(A.toarray(), b)
    for solve in (sla.cg, sla.gmres, sla.bicgstab, sla.bicg, sla.qmr, sla.minres):
        x, status = solve(plan, b, rtol=1e-12)
        assert status == 0
        np.testing.assert_allclose(x, expected, rtol=1e-8, atol=1e-8)
    for solve in (sla.lsqr, sla.lsmr):
        np.testing.assert_allclose(solve(plan, b, atol=1e-13, btol=1e-13)[0], expected, rtol=1e-6, atol=1e-8)
    eigenvalues = np.linalg.eigvalsh(A.toarray())
    np.testing.assert_allclose(np.sort(sla.eigsh(plan, 3, return_eigenvectors=False)), eigenvalues[-3:])
    if kind != "spmv":  # it calls the operator with several vectors
        guess = np.random.default_rng(0).standard_normal((80, 3))
        found, _ = sla.lobpcg(plan, guess, tol=1e-9, maxiter=200)
        np.testing.assert_allclose(np.sort(found), eigenvalues[-3:])
    R = matrix()
    wide = make(R, kind)
    for solver in ("arpack", "lobpcg"):
        s = sla.svds(wide, 3, return_singular_vectors=False, solver=solver, rng=np.random.default_rng(0))
        np.testing.assert_allclose(np.sort(s), np.linalg.svd(R.toarray())[1][2::-1], rtol=1e-5)
    complex_ones = sla.eigs(make(matrix(50, 50), kind), 3, return_eigenvectors=False)
    expected = np.linalg.eigvals(matrix(50, 50).toarray())
    np.testing.assert_allclose(np.sort(abs(complex_ones)), np.sort(abs(expected))[-3:], rtol=1e-8)


def test_importing_takes_no_solvers():
    script = "import sys, warploom; assert 'scipy.sparse.linalg' not in sys.modules; warploom.Plan; warploom.Operator"
    subprocess.run([sys.executable, "-c", script], check=True)


# ----- transposes -----


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["plain", "unsorted", "repeated", "empty rows", "no rows", "no entries"])
def test_transposes(name, kind, dtype):
    A = matrix(dtype=dtype)
    if name == "unsorted":
        A.indices[A.indptr[3] : A.indptr[4]] = A.indices[A.indptr[3] : A.indptr[4]][::-1].copy()
    elif name == "repeated":
        A = csr_array((A.data, A.indices // 2, A.indptr), shape=A.shape)
    elif name == "empty rows":
        A = csr_array((A.data, A.indices // 5 * 5, np.repeat(A.indptr[::5], 5)[4:-4]), shape=(56, 45))
    elif name == "no rows":
        A = csr_array((0, 45), dtype=dtype)
    elif name == "no entries":
        A = csr_array((60, 45), dtype=dtype)
    plan = make(A, kind)
    transposed = plan.T
    assert transposed.shape == A.shape[::-1]
    assert transposed.T is plan
    assert plan.T is transposed
    x = operand((A.shape[0], 1), dtype, "row")[:, 0]
    assert_product(csr_array(A.T), x[:, None], (transposed @ x)[:, None])
    assert_product(csr_array(A.T), x[:, None], plan.rmatvec(x)[:, None])
    if kind != "spmv":
        X = operand((A.shape[0], 5), dtype, "row")
        assert_product(csr_array(A.T), X, transposed @ X)
    (chosen,) = set(transposed.plans.values()) if kind != "operator" else [next(iter(transposed.plans.values()))]
    assert chosen.shape == A.shape[::-1]
    assert transposed._find(transposed._key(1, "row"), 1) is chosen  # and not another one at the next product


def test_transposes_in_float16():
    A = matrix().astype(np.float32)
    plan = wl.plan(A, "spmv", dtype="float16", device="cpu", select=SPMV)
    x = operand((60, 1), np.float16, "row")
    half = as_csr(A, dtype=np.float16)
    exact = csr_array((half.data.astype(np.float64), half.indices, half.indptr), shape=A.shape)
    y = plan.T @ x[:, 0]
    assert y.dtype == np.float16
    np.testing.assert_allclose(y.astype(np.float64), exact.T @ x[:, 0].astype(np.float64), rtol=2e-3, atol=2e-3)


def test_candidates_by_name_are_taken_for_the_transpose_where_they_can():
    A = matrix()
    plan = wl.plan(A, "spmv", device="cpu", select="spmv/none/cmrs/basic[height=4]")
    plan.T @ np.ones(60)
    assert [p.candidate for p in plan.T.plans.values()] == ["spmv/none/cmrs/basic[height=4]"]


def test_a_transpose_takes_another_candidate_where_the_one_by_name_cannot_be_prepared(monkeypatch):
    """As where it turns out, once rows have moved on a GPU, that a format would need too much padding."""
    A, name = matrix(), "spmv/none/cmrs/basic[height=4]"
    plan = wl.plan(A, "spmv", device="cpu", select=name)
    usual = _Settings.plan

    def refused(self, problem, whole, select, inputs):
        if select == name:
            raise wl.errors.ParameterError("would store too much", argument="candidate")
        return usual(self, problem, whole, select, inputs)

    monkeypatch.setattr(_Settings, "plan", refused)
    x = np.ones(60)
    np.testing.assert_allclose(plan.T @ x, A.T @ x)
    assert [p.candidate for p in plan.T.plans.values()] != [name]


@pytest.mark.parametrize("kind", KINDS)
def test_a_matrix_that_changed_is_noticed(kind):
    for change in ("one value", "all values", "columns", "malformed", "another value"):
        A = matrix()
        plan = make(A, kind)
        plan @ np.ones(45)
        if change == "one value":
            A.data[17] *= 1 + 1e-9
        elif change == "all values":
            A.data *= -1
        elif change == "columns":
            A.indices[:] = (A.indices + 1) % 45
        elif change == "malformed":
            A.indices[5] = 2**30
        else:
            A.data[3] = np.inf
        message = refused(
            wl.errors.InvalidMatrixError, "indices" if change == "malformed" else "A", plan.T.matvec, np.ones(60)
        )
        assert change == "malformed" or "changed" in message or change == "another value"


def test_sums_of_repeated_entries_in_place_are_no_change():
    A = matrix()
    A = csr_array((A.data, A.indices // 2, A.indptr), shape=A.shape)
    expected = A.T @ np.ones(60)
    plan = make(A, "spmm")
    A.sum_duplicates()
    close(plan.T @ np.ones(60), expected)


@pytest.mark.parametrize("kind", ["spmv", "spmm", "operator"])
def test_updated_values_reach_the_transpose(kind):
    A = matrix()
    B = csr_array((np.random.default_rng(3).standard_normal(A.nnz), A.indices, A.indptr), shape=A.shape)
    plan = make(A, kind, updatable=True)
    transposed = plan.T
    x, z = np.linspace(-1, 1, 45), np.linspace(0, 1, 60)
    close(transposed @ z, A.T @ z)
    plan.update_values(B.data)
    close(plan @ x, B @ x)
    close(transposed @ z, B.T @ z)
    plan.update_values(A.data)
    close(transposed @ z, A.T @ z)
    refused(wl.errors.ParameterError, "data", transposed.update_values, B.data)
    late = make(A, kind, updatable=True)
    late.update_values(B.data)
    if kind == "operator":
        close(late.T @ z, B.T @ z)
        close(late @ x, B @ x)
        X = operand((45, 4), np.float64, "row")
        close(late @ X, B @ X)
        late.update_values(A.data)
        close(late @ X, A @ X)
        close(late.T @ operand((60, 4), np.float64, "row"), A.T @ operand((60, 4), np.float64, "row"))
    else:
        refused(wl.errors.ParameterError, "plan", lambda: late.T)
    refused(wl.errors.ParameterError, "data", make(A, kind).update_values, A.data)
    for bad, error in ((A.data[1:], wl.errors.ShapeError), (A.data.astype(np.float32), wl.errors.DtypeError)):
        refused(error, "data", plan.update_values, bad)


@pytest.mark.parametrize("kind", KINDS)
def test_a_transpose_outlives_its_plan_and_leaves_no_circle(kind):
    A = matrix()
    plan = make(A, kind)
    expected = plan @ np.ones(45)
    transposed = plan.T
    gone = weakref.ref(plan)
    gc.disable()
    try:
        del plan
        assert gone() is None
    finally:
        gc.enable()
    close(transposed @ np.ones(60), A.T @ np.ones(60))
    close(transposed.T @ np.ones(45), expected)
    assert transposed.T.T is transposed


# ----- operators that choose when they multiply -----


def test_an_operator_keeps_a_plan_for_each_kind_of_operand():
    A = matrix()
    operator = make(A, "operator")
    assert isinstance(operator, wl.Operator)
    assert "nothing chosen" in repr(operator)
    assert operator.plans == {}
    close(operator @ np.ones(45), A @ np.ones(45))
    close(operator @ np.ones((45, 1)), A @ np.ones((45, 1)))
    assert list(operator.plans) == ["vector"]
    for k, layout in ((3, "row"), (4, "row"), (5, "row"), (8, "row"), (4, "column"), (0, "row")):
        B = operand((45, k), np.float64, layout)
        close(operator @ B, A @ B)
        out = np.full((60, k), np.nan, order="C" if layout == "row" else "F")
        assert operator(B, out=out) is out
        close(out, A @ B)
    names = ["vector", "up to 4 columns, row-major", "up to 8 columns, row-major", "up to 4 columns, column-major"]
    assert [*operator.plans][:4] == names
    assert operator.plan_for(7) is operator.plans["up to 8 columns, row-major"]
    assert operator.plan_for() is operator.plans["vector"]
    assert operator.plans["vector"].candidate == SPMV
    assert set(operator.explain()) == set(operator.plans)
    assert operator.nbytes == sum(plan.nbytes for plan in operator.plans.values())
    assert SPMV in repr(operator)
    y = np.empty(60)
    assert operator(np.ones(45), out=y) is y
    for wrong in (np.ones(44), np.ones((44, 2)), np.ones((45, 2, 2)), None, 3.0):
        refused(wl.errors.ShapeError, "B", lambda B=wrong: operator @ B)


def test_operators_are_validated_at_once():
    A = matrix()
    A.indices[3] = 1000
    refused(wl.errors.InvalidMatrixError, "indices", wl.plan, A, device="cpu")
    refused(wl.errors.ParameterError, "layout", wl.plan, matrix(), device="cpu", layout="diagonal")
    for wrong in (5, "fastest", "spmv/none/csr", "spmv/none/csr/vektor", "spmv/none/csr/vector[threads_per_row=7]"):
        refused(wl.errors.ParameterError, "select", wl.plan, matrix(), device="cpu", select=wrong)
    for wrong in (5, "spmw/*", ["*/none/csr/vektor", "spmv/"], []):
        refused(wl.errors.ParameterError, "candidates", wl.plan, matrix(), device="cpu", candidates=wrong)
    for match in ("spmm/*", ["nothing", "spmv/none/csr/v*"], "spmv/none/csr/vector[threads_per_row=8]"):
        assert not wl.plan(matrix(), device="cpu", candidates=match).plans
    assert not wl.plan(matrix(dtype=np.float32), device="cpu", candidates="*_tf32*", precision="tf32").plans
    refused(wl.errors.ParameterError, "k", wl.plan, matrix(), "spmm", device="cpu")


@pytest.mark.filterwarnings("ignore:Sparse .* tensor support")  # PyTorch's, once a process
@pytest.mark.parametrize("format", ["coo", "csc"])
def test_tensors_in_other_formats_than_csr(format):
    torch = pytest.importorskip("torch")
    A = matrix(seed=3)
    tensor = getattr(torch.from_numpy(A.toarray()), f"to_sparse_{format}")()
    for of in (wl.plan(tensor, k=3, device="cpu", updatable=True), wl.plan(tensor, device="cpu", updatable=True)):
        B, C = operand((45, 3), np.float64, "row"), operand((60, 3), np.float64, "row")
        assert_product(A, B, of @ B)
        assert_product(A.T.tocsr(), C, of.T @ C)
        of.update_values(2 * A.data)
        assert_product(2 * A, B, of @ B)


def test_operators_of_several_threads():
    import threading

    A = matrix(300, 200)
    operator, B = make(A, "operator"), operand((200, 6), np.float64, "row")
    expected, wrong = A @ B, []

    def multiply():
        for _ in range(20):
            if not np.allclose(operator @ B, expected) or not np.allclose(operator.T @ expected, A.T @ expected):
                wrong.append(1)

    threads = [threading.Thread(target=multiply) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(operator.plans) == 1


# ----- factors -----


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("vector", [True, False])
def test_alpha_and_beta(kind, vector):
    if kind == "spmv" and not vector:
        pytest.skip("one vector")
    A = matrix()
    plan = make(A, kind)
    order = "F" if kind == "spmm-column" else "C"
    B = operand((45, 1), np.float64, "row")[:, 0] if vector else operand((45, 4), np.float64, "row").copy(order)
    C = operand((60, 1), np.float64, "row")[:, 0] if vector else operand((60, 4), np.float64, "row").copy(order)
    for alpha, beta in ((1, 0), (2.5, 0), (1, 1), (-1, 1), (2, -0.5), (0, 2), (0, 0), (np.float32(0.5), np.int64(3))):
        out = C.copy(order)
        assert plan(B, out=out, alpha=alpha, beta=beta) is out
        close(out, float(alpha) * (A @ B) + float(beta) * C)
        if beta == 0:
            close(plan(B, alpha=alpha), float(alpha) * (A @ B))
            out[...] = np.nan
            close(plan(B, out=out, alpha=alpha), float(alpha) * (A @ B))
    lost = np.full_like(B, np.nan)
    assert not plan(lost, alpha=0).any()
    np.testing.assert_array_equal(plan(lost, out=C.copy(order), alpha=0, beta=1), C)
    refused(wl.errors.ParameterError, "beta", plan, B, beta=1)
    refused(wl.errors.ParameterError, "alpha", plan, B, alpha="x")
    refused(wl.errors.ParameterError, "beta", plan, B, out=C, beta=1j)
    refused(wl.errors.ShapeError, "out", plan, B, out=C[1:], beta=1)
    refused(wl.errors.DtypeError, "out", plan, B, out=C.astype(np.float32), beta=1)
    refused(wl.errors.DtypeError, "out", plan, B, out=C.tolist(), beta=1)
    read_only = C.copy()
    read_only.flags.writeable = False
    refused(wl.errors.ParameterError, "out", plan, B, out=read_only, beta=1)


def test_alpha_and_beta_of_tensors():
    torch = pytest.importorskip("torch")
    A = matrix()
    plan = make(A, "spmm")
    B, C = torch.randn(45, 4, dtype=torch.float64), torch.randn(60, 4, dtype=torch.float64)
    for alpha, beta in ((2.0, 0.0), (1.0, 1.0), (-2.0, 0.5), (0.0, 2.0)):
        out = C.clone()
        assert plan(B, out=out, alpha=alpha, beta=beta) is out
        close(out.numpy(), alpha * (A @ B.numpy()) + beta * C.numpy())
    refused(wl.errors.ParameterError, "out", plan, B, out=C.clone().requires_grad_(), beta=1.0)
    refused(wl.errors.ParameterError, "B", plan, B.clone().requires_grad_(), out=C, beta=1.0)
    refused(wl.errors.DtypeError, "out", plan, B, out=C.numpy(), beta=1.0)


# ----- operands of other types -----


@pytest.mark.parametrize("kind", KINDS)
def test_operands_are_promoted_as_scipy_does(kind):
    A = matrix()
    plan, narrow = make(A, kind), make(A.astype(np.float32), kind)
    x = np.arange(45) % 7 - 3
    for dtype in (bool, np.int8, np.uint8, np.int64, np.uint64, np.float16, np.float32, ">f8", ">i4"):
        y = plan @ x.astype(dtype)
        assert y.dtype == np.float64
        close(y, A @ x.astype(dtype).astype(np.float64))
    for dtype in (bool, np.int8, np.uint16, np.float16, ">f4"):
        y = narrow @ x.astype(dtype)
        assert y.dtype == np.float32
        close(y, A.astype(np.float32) @ x.astype(dtype).astype(np.float32), np.float32)
    for dtype in (np.float64, np.int32, np.int64):
        if kind != "operator":  # which takes them, below
            refused(wl.errors.DtypeError, "B", narrow, x.astype(dtype))
    for dtype in (object, np.longdouble, "datetime64[s]"):
        refused(wl.errors.DtypeError, "B", plan, x.astype(dtype))
    for plain, expected in ((plan, np.float64), (narrow, np.float32)):
        for values in (x.tolist(), tuple(map(float, x))):
            y = plain @ values
            assert y.dtype == expected
            close(y, A.astype(expected) @ x.astype(expected), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_complex_operands_are_split(kind):
    A = matrix()
    plan = make(A, kind)
    x = np.exp(1j * np.arange(45))
    for dtype in (np.complex128, np.complex64):
        y = plan @ x.astype(dtype)
        assert y.dtype == np.complex128
        close(y, A @ x.astype(dtype).astype(np.complex128))
    infinite = np.zeros(45, complex)
    infinite[int(A.indices[0])] = complex(np.inf, 0)
    assert not np.isnan((plan @ infinite).imag).any()
    refused(wl.errors.DtypeError, "B", plan, x, out=np.empty(60, complex))
    narrow = make(A.astype(np.float32), kind)
    if kind != "operator":
        refused(wl.errors.DtypeError, "B", narrow, x)
    close((narrow @ x.astype(np.complex64)).real, A.astype(np.float32) @ x.real.astype(np.float32), np.float32)


WIDER = [
    (np.float32, np.float64, np.float64),
    (np.float32, np.int32, np.float64),
    (np.float32, np.uint64, np.float64),
    (np.float32, ">f8", np.float64),
    (np.float32, np.complex128, np.complex128),
    (np.float16, np.float32, np.float32),
    (np.float16, np.int16, np.float32),
    (np.float16, np.float64, np.float64),
    ("bfloat16", np.float16, np.float32),
    ("bfloat16", np.float32, np.float32),
    ("bfloat16", np.int32, np.float64),
]


@pytest.mark.parametrize(("dtype", "given", "expected"), WIDER)
def test_operators_take_operands_of_wider_types(dtype, given, expected):
    A = matrix()
    A.data = np.round(16 * A.data) / 16  # exact in every type
    plan = wl.plan(A, device="cpu", dtype=dtype)
    x, X = np.arange(45) % 7 - 3.0, operand((45, 3), np.float64, "row").round(1)
    real = np.finfo(expected).dtype
    for B in (x.astype(given), X.astype(given), np.asfortranarray(X.astype(given))):
        result = plan @ B
        assert result.dtype == expected
        close(result.real, A @ B.real.astype(np.float64), real)
        close((plan.T @ (result / 8)).real, A.T @ (result.real.astype(np.float64) / 8), real)
        close((B.T @ plan.T).T.real, A @ B.real.astype(np.float64), real)
    assert plan.dtype == wl.plan(A, "spmv", device="cpu", dtype=dtype).dtype  # it stays as it was
    assert {name.rpartition(", ")[2] for name in plan.plans} == {str(real)}
    assert set(plan.explain()) == set(plan.plans)
    assert plan.nbytes == sum(chosen.nbytes for chosen in plan.plans.values()) > 0


def test_wider_operands_with_all_that_a_call_takes():
    A = matrix(dtype=np.float32)
    plan = make(A, "operator")
    x, bias, out = np.linspace(-1, 1, 45), np.linspace(0, 1, 60), np.ones(60)
    expected = np.maximum(2 * (A.astype(np.float64) @ x) + 0.5 + bias, 0)
    assert plan(x, out=out, alpha=2, beta=0.5, bias=bias, activation="relu") is out
    close(out, expected)
    close(plan(x, alpha=2, bias=bias + 0.5, activation="relu"), expected)
    refused(wl.errors.DtypeError, "out", plan, x, out=out.astype(np.float32))
    refused(wl.errors.ShapeError, "B", plan, x[1:])
    S = symmetric().astype(np.float32)
    y, dot = make(S, "operator").product_and_dot(np.ones(80))
    close(y, S.astype(np.float64) @ np.ones(80))
    assert (y.dtype, dot.dtype) == (np.float64, np.float64)
    np.testing.assert_allclose(dot, S.astype(np.float64).sum())


def test_wider_operands_meet_the_latest_values():
    A = matrix(dtype=np.float32)
    plan = make(A, "operator", updatable=True)
    x, z = np.linspace(-1, 1, 45), np.linspace(-1, 1, 60)
    for factor in (1, 2, 3):
        B = A * np.float32(factor)
        plan.update_values(B.data)
        close(plan @ x, B.astype(np.float64) @ x)
        close(plan.T @ z, B.astype(np.float64).T @ z)
        close(plan @ x.astype(np.float32), B @ x.astype(np.float32), np.float32)
    assert set(plan.plans) == {"vector", "vector, float64"}


def test_a_named_candidate_counts_for_wider_operands_where_it_has_their_type():
    A = matrix(dtype=np.float32)
    x = np.ones(45)
    same = wl.plan(A, device="cpu", select="spmv/none/csr/scalar")
    close(same @ x, A.astype(np.float64) @ x)
    assert same.plans["vector, float64"].candidate == "spmv/none/csr/scalar"
    half = wl.plan(A, device="cpu", dtype=np.float16, select="spmv/none/dasp/tensor_core")
    assert (half @ x).dtype == np.float64


def test_files_hold_what_was_chosen_for_the_type_of_the_matrix():
    A = matrix(dtype=np.float32)
    plan, x = make(A, "operator"), np.linspace(-1, 1, 45)
    plan @ x
    plan @ x.astype(np.float32)
    copied = pickle.loads(pickle.dumps(plan))
    assert list(copied.plans) == ["vector"]
    np.testing.assert_array_equal(copied @ x, plan @ x)


def test_a_matrix_that_changed_is_noticed_by_wider_operands():
    A = matrix(dtype=np.float32)
    plan = make(A, "operator")
    plan @ np.ones(45, np.float32)
    A.data[17] += 1
    refused(wl.errors.InvalidMatrixError, "A", lambda: plan @ np.ones(45))


def test_tensors_of_wider_types_are_refused_as_by_torch():
    torch = pytest.importorskip("torch")
    plan = make(matrix(dtype=np.float32), "operator")
    refused(wl.errors.DtypeError, "B", lambda: plan @ torch.ones(45, dtype=torch.float64))


def test_solvers_of_scipy_take_the_vectors_they_make_themselves():
    A = symmetric().astype(np.float32)
    plan, b = wl.plan(A, device="cpu"), np.ones(80)
    for solve in (sla.cg, sla.gmres, sla.minres, sla.bicgstab):
        x, info = solve(plan, b)
        assert info == 0
        assert np.linalg.norm(A @ x - b) < 1e-4 * np.linalg.norm(b)
    values, _ = sla.lobpcg(plan, np.random.default_rng(0).random((80, 3)), tol=1e-3, maxiter=200)
    np.testing.assert_allclose(sorted(values), np.linalg.eigvalsh(A.toarray())[-3:], rtol=1e-4)


def test_complex_and_other_tensors():
    torch = pytest.importorskip("torch")
    A = matrix()
    plan = make(A, "spmm")
    x = torch.randn(45, 3, dtype=torch.complex128)
    for given in (x, x.conj(), x.to(torch.complex64)):
        y = plan @ given
        assert y.dtype == torch.complex128
        close(y.numpy(), A @ given.resolve_conj().numpy().astype(np.complex128))
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool):
        given = torch.arange(45).remainder(3).to(dtype)
        y = plan @ given
        assert y.dtype == torch.float64
        close(y.numpy(), A @ given.double().numpy())
    refused(wl.errors.ParameterError, "B", lambda: plan @ x.real.float().requires_grad_())


def test_series_and_data_frames():
    pandas = pytest.importorskip("pandas")
    A = matrix()
    for kind in ("spmm", "operator"):
        plan = make(A, kind)
        frame = pandas.DataFrame(operand((45, 3), np.float64, "row"), columns=list("abc"))
        for given in (frame, frame["b"], frame.astype(np.float32), frame["a"].round().astype(int)):
            y = plan @ given
            assert type(y) is np.ndarray
            close(y, A @ given.to_numpy().astype(np.float64))
        refused(wl.errors.DtypeError, "B", lambda plan=plan: plan @ pandas.Series(["x"] * 45, dtype=object))


# ----- awkward matrices -----


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", battery(np.float64))
def test_products_of_awkward_matrices_in_every_direction(name, dtype):
    A = battery(dtype)[name]
    m, n = A.shape
    operator = make(A, "operator")
    transposed = csr_array(A.T)
    for layout in ("row", "column"):
        B, Z = operand((n, 3), dtype, layout), operand((m, 3), dtype, layout)
        assert_product(A, B, operator @ B)
        assert_product(transposed, Z, operator.T @ Z)
        assert_product(transposed, Z, (Z.T @ operator).T)
    assert_product(transposed, Z[:, :1], operator.rmatvec(Z[:, :1]))


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(csr_matrices())
def test_transposes_of_any_matrix(A):
    plan = wl.plan(A, "spmv", device="cpu", select=SPMV)
    z = np.linspace(-1, 1, A.shape[0]).astype(plan.dtype)
    view = as_csr(A, dtype=plan.dtype)
    exact = csr_array((view.data.astype(np.float64), view.indices, view.indptr), shape=A.shape)
    # abs(exact) would add up entries at the same place first, which may cancel.
    magnitudes = csr_array((abs(exact.data), view.indices, view.indptr), shape=A.shape)
    with np.errstate(all="ignore"):
        bound = magnitudes.T @ abs(z.astype(np.float64))
        off = abs((plan.T @ z).astype(np.float64) - exact.T @ z.astype(np.float64))
    known = np.isfinite(bound) & (bound < np.finfo(plan.dtype).max)
    assert (off[known] <= (A.shape[0] + 2) * np.finfo(plan.dtype).eps * bound[known] + np.finfo(plan.dtype).tiny).all()


def test_what_graphs_know_operators_by_goes_with_them():
    gc.collect()
    before = set(_multiplier._operators)
    plans = [make(matrix(), kind) for kind in KINDS]
    names = {plan._name for plan in plans}
    assert len(names) == len(KINDS)
    assert not names & before
    assert [_multiplier.find_operator(plan._name) for plan in plans] == plans
    del plans
    gc.collect()
    assert not names & set(_multiplier._operators)
    with pytest.raises(wl.errors.ParameterError, match="is gone"):
        _multiplier.find_operator(names.pop())
