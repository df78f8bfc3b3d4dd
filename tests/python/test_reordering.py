from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import warploom as wl
from warploom import _core

SYMMETRIC = [name for name in wl.permutations.names() if wl.permutations.is_symmetric(name)]


def random_matrix(rows, columns, per_row, seed, dtype=np.float64):
    """Unsorted rows, with repeated columns."""
    rng = np.random.default_rng(seed)
    indices = rng.integers(0, max(columns, 1), rows * per_row).astype(np.int32)
    indptr = np.arange(rows + 1) * per_row
    values = rng.integers(-9, 9, rows * per_row).astype(dtype)
    return sp.csr_array((values, indices, indptr), shape=(rows, columns))


def shuffled_grid(side, seed):
    path = sp.diags_array([np.ones(side - 1), np.ones(side - 1)], offsets=[-1, 1])
    perm = np.random.default_rng(seed).permutation(side * side)
    return sp.csr_array(sp.csr_array(sp.kronsum(path, path, format="csr"))[perm][:, perm])


@pytest.mark.parametrize("order", [*SYMMETRIC, "auto"])
@settings(max_examples=30, deadline=None)
@given(rows=st.integers(0, 40), per_row=st.integers(0, 6), seed=st.integers(0, 99))
def test_a_symmetric_order_permutes_rows_and_columns(order, rows, per_row, seed):
    A = random_matrix(rows, rows, per_row if rows else 0, seed)
    r = wl.reorder(A, order)
    assert r.symmetric
    assert r.A.has_canonical_format or per_row > 1
    np.testing.assert_array_equal(np.sort(r.perm), np.arange(rows))
    np.testing.assert_array_equal(r.A.toarray(), A.toarray()[r.perm][:, r.perm])
    x = np.arange(rows, dtype=np.float64)
    np.testing.assert_array_equal(r.enter(x), x[r.perm])
    np.testing.assert_array_equal(r.leave(r.enter(x)), x)
    np.testing.assert_array_equal(r.leave(r.A @ r.enter(x)), A @ x)


@pytest.mark.parametrize("order", [*wl.permutations.names(), "auto"])
@pytest.mark.parametrize("shape", [(40, 25), (25, 40), (30, 30)])
def test_rows_alone(order, shape):
    A = random_matrix(*shape, 3, seed=1)
    r = wl.reorder(A, order, symmetric=False)
    assert not r.symmetric
    np.testing.assert_array_equal(r.A.toarray(), A.toarray()[r.perm])
    B = np.random.default_rng(2).integers(-9, 9, (shape[1], 3)).astype(float)
    assert r.enter(B) is B
    np.testing.assert_array_equal(r.leave(r.A @ B), A @ B)


@pytest.mark.parametrize("name", ["rcm", "community", "degree"])
def test_number_of_threads_does_not_matter(name):
    A = random_matrix(3000, 3000, 5, seed=3)
    expected = wl.reorder(A, name)
    try:
        for threads in (1, 2, 3):
            _core.set_num_threads(threads)
            found = wl.reorder(A, name)
            np.testing.assert_array_equal(found.A.indices, expected.A.indices)
            np.testing.assert_array_equal(found.A.data, expected.A.data)
    finally:
        _core.set_num_threads(0)


@pytest.mark.parametrize("make", [sp.csr_array, sp.csr_matrix, sp.coo_array, sp.csc_matrix])
@pytest.mark.parametrize("dtype", [np.bool_, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("symmetric", [True, False])
def test_type_of_the_matrix_and_of_its_values_are_kept(make, dtype, symmetric):
    A = make(shuffled_grid(8, seed=4).astype(dtype))
    r = wl.reorder(A, "rcm", symmetric=symmetric)
    assert type(r.A) is (sp.csr_matrix if isinstance(A, sp.spmatrix) else sp.csr_array)
    assert r.A.dtype == dtype


def test_the_given_matrix_is_left_alone():
    A = random_matrix(50, 50, 4, seed=5)
    before = A.copy()
    r = wl.reorder(A, "none")
    r.A.data[:] = 7
    np.testing.assert_array_equal(A.data, before.data)
    np.testing.assert_array_equal(A.indices, before.indices)


def test_an_order_is_chosen_where_it_helps_and_none_where_not():
    grid = wl.reorder(shuffled_grid(120, seed=6))
    assert grid.order in ("rcm", "community")
    band = sp.csr_array(sp.diags_array([np.ones(9000)] * 3, offsets=[-1, 0, 1], shape=(9000, 9000)))
    assert wl.reorder(band).order == "none"
    assert wl.reorder(band, symmetric=False).order == "none"
    rows_only = wl.reorder(shuffled_grid(120, seed=6), symmetric=False)
    assert rows_only.order in ("rcm", "community")


def test_vectors_and_matrices_of_torch():
    torch = pytest.importorskip("torch")
    A = shuffled_grid(10, seed=7)
    r = wl.reorder(A, "community")
    for x in (torch.arange(100, dtype=torch.float64), torch.arange(300, dtype=torch.float32).reshape(100, 3)):
        entered = r.enter(x)
        assert isinstance(entered, torch.Tensor)
        assert entered.dtype == x.dtype
        np.testing.assert_array_equal(entered.numpy(), x.numpy()[r.perm])
        assert torch.equal(r.leave(entered), x)
        expected = torch.as_tensor(A @ x.numpy())
        torch.testing.assert_close(r.leave(torch.as_tensor(r.A @ entered.numpy())), expected)


def test_a_plan_of_the_permuted_problem():
    A = shuffled_grid(10, seed=8)
    r = wl.reorder(A)
    x = np.random.default_rng(9).standard_normal(100)
    product = wl.plan(r.A, op="spmv", device="cpu")
    np.testing.assert_allclose(r.leave(product @ r.enter(x)), A @ x)


def test_a_symmetric_order_of_a_rectangular_matrix_is_refused():
    with pytest.raises(wl.errors.ShapeError, match=r"square.*3 x 4.*symmetric=False") as caught:
        wl.reorder(sp.csr_array((3, 4)), "rcm")
    assert caught.value.argument == "A"
    with pytest.raises(wl.errors.ShapeError):
        wl.reorder(sp.csr_array((3, 4)))
    with pytest.raises(wl.errors.ShapeError):
        _core.permute_symmetrically(wl.permutations.as_csr(sp.csr_array((3, 4))), np.arange(3, dtype=np.int32))


@pytest.mark.parametrize("order", ["best", "lpt", "minhash", "cta-aware"])
def test_an_order_that_is_unknown_or_for_rows_only_is_refused(order):
    with pytest.raises(wl.errors.ParameterError, match=order):
        wl.reorder(sp.csr_array((4, 4)), order)


def test_malformed_matrices_are_refused():
    A = sp.csr_array(np.eye(4))
    A.indices = np.array([0, 1, 2, 9], np.int32)
    with pytest.raises(wl.errors.InvalidMatrixError):
        wl.reorder(A, "rcm")


@pytest.mark.parametrize("shape", [(5,), (3,), (5, 2), (4, 1, 1), ()])
def test_operands_of_another_size_are_refused(shape):
    r = wl.reorder(sp.csr_array(np.eye(4)), "rcm")
    for way in (r.enter, r.leave):
        with pytest.raises(wl.errors.ShapeError):
            way(np.zeros(shape))


def test_permute_symmetrically_refuses_what_is_no_permutation():
    view = wl.permutations.as_csr(sp.csr_array(np.eye(3)))
    with pytest.raises(wl.errors.ParameterError):
        _core.permute_symmetrically(view, np.array([0, 0, 1], np.int32))


def test_where_orders_are_computed_is_said_by_name():
    A = shuffled_grid(12, 0)
    np.testing.assert_array_equal(wl.reorder(A, device="cpu").perm, wl.reorder(A).perm)
    with pytest.raises(wl.errors.DeviceError, match="there is no GPU 99"):
        wl.reorder(A, device="cuda:99")
