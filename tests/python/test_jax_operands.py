"""Arrays of JAX as operands on the CPU: in by DLPack's neighbours, and back as arrays of JAX."""

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import warploom as wl
from warploom import _device
from warploom.errors import DtypeError, ParameterError, ShapeError

CHOICES = {
    "spmv": {"op": "spmv", "select": "spmv/none/csr/vector"},
    "row": {"k": 3, "select": "spmm/none/csr/row_split"},
    "column": {"k": 3, "layout": "column", "select": "spmm/lpt/csr/c_stationary"},
    "operator": {"select": "spmv/none/csr/vector", "candidates": ["*/none/csr/row_split", "*/none/csr/vector"]},
}


@pytest.fixture(scope="module")
def jnp():
    return pytest.importorskip("jax.numpy")


@pytest.fixture(autouse=True)
def _quiet(recwarn):
    """What JAX says of the machine is no matter here."""


def matrix(dtype=np.float32):
    return csr_array(random_array((50, 40), density=0.1, format="csr", rng=np.random.default_rng(0))).astype(dtype)


def make(kind, A=None):
    return wl.plan(matrix() if A is None else A, device="cpu", **CHOICES[kind])


def operand(shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def same(found, expected, jnp):
    assert isinstance(found, jnp.ndarray)
    assert found.dtype == np.float32
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", CHOICES)
def test_results_are_arrays_of_jax(kind, jnp):
    A, plan = matrix(), make(kind)
    x, X, y = operand(40), operand((40, 1 if kind == "spmv" else 3)), operand(50)
    for _ in range(2):  # the second time an operator has a plan
        same(plan @ jnp.asarray(x), A @ x, jnp)
        same(plan @ jnp.asarray(X), A @ X, jnp)
        same(plan(jnp.asarray(X)), A @ X, jnp)
        same(plan.matvec(jnp.asarray(x)), A @ x, jnp)
        same(plan.dot(jnp.asarray(X)), A @ X, jnp)
        same(plan.T @ jnp.asarray(y), A.T @ y, jnp)
        same(plan.rmatvec(jnp.asarray(y)), A.T @ y, jnp)
        same(jnp.asarray(y) @ plan, A.T @ y, jnp)
    same(plan(jnp.asarray(x), alpha=2.0), 2 * (A @ x), jnp)
    same(plan @ jnp.asarray(X.T.copy()).T, A @ X, jnp)


def test_rows_from_the_left(jnp):
    A, plan = matrix(), make("operator")
    Y = operand((3, 50))
    same(jnp.asarray(Y) @ plan, Y @ A, jnp)


def test_operands_are_viewed_and_not_copied(jnp):
    X = jnp.asarray(operand((40, 3)))
    seen = _device.operand(_device.as_array(X, np.dtype(np.float32)), np.dtype(np.float32), "row")
    assert seen.pointer == X.unsafe_buffer_pointer()
    assert not seen.copied


def test_types_are_promoted_as_those_of_numpy(jnp):
    plan = make("row", matrix(np.float64))
    A = matrix(np.float64)
    for x in (jnp.arange(40), jnp.ones(40, jnp.float32), jnp.ones(40, jnp.float16), jnp.ones(40, bool)):
        found = plan @ x
        assert isinstance(found, jnp.ndarray)  # of the widest type that JAX is set to have
        np.testing.assert_allclose(np.asarray(found), A @ np.asarray(x).astype(float), rtol=1e-6)
    for x in (jnp.arange(40), jnp.ones(40, jnp.complex64)):
        with pytest.raises(DtypeError, match="the plan works on float32") as refused:
            make("row") @ x
        assert refused.value.argument == "B"


def test_what_does_not_fit_is_refused(jnp):
    plan = make("row")
    with pytest.raises(ShapeError):
        plan @ jnp.ones(41, jnp.float32)
    with pytest.raises(ParameterError, match="out is read-only") as refused:
        plan(jnp.ones((40, 3), jnp.float32), out=jnp.ones((50, 3), jnp.float32))
    assert refused.value.argument == "out"


def test_results_are_written_to_arrays_of_numpy(jnp):
    A, plan, X = matrix(), make("row"), operand((40, 3))
    out = np.ones((50, 3), np.float32)
    assert plan(jnp.asarray(X), out=out) is out
    np.testing.assert_allclose(out, A @ X, rtol=1e-5, atol=1e-5)
    assert plan(jnp.asarray(X), out=out, alpha=2.0, beta=-1.0) is out
    np.testing.assert_allclose(out, A @ X, rtol=1e-5, atol=1e-5)


def test_values_that_are_not_there_are_refused(jnp):
    import jax

    plan = make("row")
    x = jnp.ones(40, jnp.float32)
    for call in (jax.jit(lambda x: plan @ x), jax.grad(lambda x: (plan @ x).sum())):
        with pytest.raises(ParameterError, match=r"multiply outside of it, or by jax\.pure_callback") as refused:
            call(x)
        assert refused.value.argument == "B"
    shape = jax.ShapeDtypeStruct((50,), np.float32)
    same(jax.jit(lambda x: jax.pure_callback(lambda x: plan @ x, shape, x))(x), matrix() @ np.asarray(x), jnp)


def test_new_values(jnp):
    A = matrix()
    plan = wl.plan(A, device="cpu", updatable=True, **CHOICES["row"])
    data = operand(A.nnz)
    plan.update_values(jnp.asarray(data))
    X = operand((40, 3))
    same(plan @ jnp.asarray(X), csr_array((data, A.indices, A.indptr), shape=A.shape) @ X, jnp)


class OnAnotherDevice:
    """An array of a library of this test."""

    dtype, ndim, shape = np.dtype(np.float32), 1, (40,)

    def __dlpack__(self, **_):
        raise BufferError("not to be exchanged")

    def __dlpack_device__(self):
        return 2, 0


def test_arrays_on_a_gpu_take_the_way_they_took():
    """For which nothing is viewed on the host."""
    array = OnAnotherDevice()
    assert not _device.is_foreign(array)
    assert _device.as_array(array, np.dtype(np.float32)) is array
