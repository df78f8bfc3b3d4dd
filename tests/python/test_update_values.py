"""New values for a plan on the CPU: its products are then those of a new plan, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse import csr_array, random_array

import warploom as wl
from updates import matrices, new_values, with_values
from warploom import _bfloat16, errors
from warploom.candidates import Candidate, kernels

CASES = [
    pytest.param(k, layout, _bfloat16.as_dtype(dtype), id=f"{k.op}-{k.format}-{k.name}-{layout}-{dtype}")
    for op in ("spmv", "spmm")
    for k in kernels(op)
    if "cpu" in k.devices
    for layout in (k.layouts if op == "spmm" else ["column"])
    for dtype in k.dtypes
]


def plan_for(A, kernel, layout="column", permutation="none", **options):
    name = Candidate.make(kernel, permutation).name
    described = {"k": 3, "layout": layout} if kernel.op == "spmm" else {}
    return wl.plan(A, kernel.op, device="cpu", select=name, **described, **options)


def operand_for(A, kernel):
    shape = (A.shape[1], 3) if kernel.op == "spmm" else (A.shape[1],)
    return _bfloat16.cast(np.random.default_rng(2).standard_normal(shape), A.data.dtype)


def check(A, kernel, layout, permutation="none"):
    """Whether the kernel takes the matrix; asserts that an updated plan is as good as a new one."""
    data = new_values(A)
    try:
        new = plan_for(with_values(A, data), kernel, layout, permutation)
    except errors.ParameterError:
        return False
    B = operand_for(A, kernel)
    plan = plan_for(A, kernel, layout, permutation, updatable=True)
    assert plan.updatable
    before = plan @ B
    assert before.tobytes() == (plan_for(A, kernel, layout, permutation) @ B).tobytes()
    assert plan.update_values(data) is None
    assert (plan @ B).tobytes() == (new @ B).tobytes()
    plan.update_values(A.data)
    assert (plan @ B).tobytes() == before.tobytes()
    return True


@pytest.mark.parametrize("name", matrices(np.dtype(np.float32)))
@pytest.mark.parametrize(("kernel", "layout", "dtype"), CASES)
def test_every_kernel(kernel, layout, dtype, name):
    if not check(matrices(dtype)[name], kernel, layout):
        pytest.skip("refused")


@pytest.mark.parametrize("permutation", ["lpt", "warp-aware"])
@pytest.mark.parametrize(("kernel", "layout", "dtype"), CASES)
def test_permuted(kernel, layout, dtype, permutation):
    if not kernel.permutes:
        pytest.skip("takes no permutation")
    took = [
        check(matrices(dtype)[name], kernel, layout, permutation) for name in ("many", "duplicates unsorted", "random")
    ]
    assert any(took)


def matrix(dtype=np.float64):
    return csr_array(random_array((40, 30), density=0.2, rng=np.random.default_rng(0), format="csr")).astype(dtype)


@pytest.mark.parametrize("select", ["auto", "measure"])
def test_however_it_was_chosen(select):
    A = matrix()
    plan = wl.plan(A, "spmv", device="cpu", select=select, candidates="spmv/*/csr/*", updatable=True)
    data, x = new_values(A), np.arange(30.0)
    table = str(plan.explain())
    plan.update_values(data)
    np.testing.assert_allclose(plan @ x, with_values(A, data) @ x)
    assert str(plan.explain()) == table
    assert plan.preparation_ms["updating"] > 0


def test_with_inputs():
    A = matrix()
    short = int((~np.asarray(wl.partition.partition_rows(A, long_row=128).is_long, bool)).sum())
    inputs = {"block_threads_per_row": [8] * short}
    name = "spmv/none/csr/blockwise[long_row=128]"
    plan = wl.plan(A, "spmv", device="cpu", select=name, inputs=inputs, updatable=True)
    data, x = new_values(A), np.arange(30.0)
    plan.update_values(data)
    np.testing.assert_allclose(plan @ x, with_values(A, data) @ x)


@pytest.mark.parametrize(("kernel", "layout", "dtype"), CASES)
def test_it_costs_four_bytes_a_place(kernel, layout, dtype):
    A = matrices(dtype)["many"]
    try:
        plain = plan_for(A, kernel, layout)
    except errors.ParameterError:
        pytest.skip("refused")
    more = plan_for(A, kernel, layout, updatable=True).nbytes - plain.nbytes
    assert 0 <= more <= 4 * plain.nbytes / dtype.itemsize
    assert not plain.updatable


def test_csr_needs_no_map():
    A = matrix()
    name = "spmv/none/csr/vector"
    plans = [wl.plan(A, "spmv", device="cpu", select=name, updatable=updatable) for updatable in (False, True)]
    assert plans[0].nbytes == plans[1].nbytes


def test_a_plan_without_it_refuses():
    A = matrix()
    plan = wl.plan(A, "spmv", device="cpu", select="spmv/none/csr/vector")
    assert not plan.updatable
    with pytest.raises(errors.ParameterError, match="updatable=True"):
        plan.update_values(A.data)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (lambda d: d[:-1], errors.ShapeError),
        (lambda d: np.append(d, 1.0), errors.ShapeError),
        (lambda d: d[:, None], errors.ShapeError),
        (lambda d: 1.0, errors.ShapeError),
        (lambda d: None, errors.ShapeError),
        (lambda d: d.astype(np.float32), errors.DtypeError),
        (lambda d: np.ones(len(d), int), errors.DtypeError),
        (lambda d: csr_array(d[None]), errors.ShapeError),
    ],
)
def test_what_does_not_fit_changes_nothing(data, error):
    A = matrix()
    plan = wl.plan(A, "spmv", device="cpu", select="spmv/none/csr/vector", updatable=True)
    x = np.arange(30.0)
    before = plan @ x
    with pytest.raises(error) as caught:
        plan.update_values(data(A.data))
    assert caught.value.argument == "data"
    np.testing.assert_array_equal(plan @ x, before)


def test_any_strides_and_no_reference():
    A = matrix()
    plan = wl.plan(A, "spmv", device="cpu", select="spmv/lpt/csr/vector", updatable=True)
    data, x = new_values(A), np.arange(30.0)
    expected = with_values(A, data) @ x
    spread = np.full((A.nnz, 3), np.nan)
    spread[:, 1] = data
    unaligned = np.frombuffer(b"." + data.tobytes(), np.uint8)[1:].view(np.float64)
    for given in (spread[:, 1], data[::-1].copy()[::-1], list(data), unaligned):
        plan.update_values(np.zeros(A.nnz))
        plan.update_values(given)
        np.testing.assert_allclose(plan @ x, expected)
    spread[:] = np.nan
    np.testing.assert_allclose(plan @ x, expected)


def test_the_caller_keeps_the_matrix():
    A = matrix()
    kept = A.copy()
    plan = wl.plan(A, "spmv", device="cpu", select="spmv/none/csr/vector", updatable=True)
    plan.update_values(new_values(A))
    np.testing.assert_array_equal(A.data, kept.data)
    A.data[:] = 0
    A.indices[:] = 0
    np.testing.assert_allclose(plan @ np.arange(30.0), with_values(kept, new_values(kept)) @ np.arange(30.0))


def test_the_pattern_of_repeated_entries_is_kept():
    """BSR adds them up: it is converted again, from the pattern as it was."""
    A = csr_array(([1.0, 2.0, 3.0], [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    plan = wl.plan(A, "spmv", device="cpu", select="spmv/none/bsr/vector", updatable=True)
    A.indices[:] = 0
    plan.update_values(np.array([10.0, 20.0, 30.0]))
    np.testing.assert_array_equal(plan @ np.array([1.0, 2.0]), [60.0, 30.0])


def test_the_order_is_that_of_scipys_csr():
    """Entries of COO that repeat are added up by SciPy before, and the rest is sorted."""
    A = scipy.sparse.coo_array(([1.0, 2.0, 4.0, 8.0], ([1, 0, 1, 0], [0, 2, 0, 1])), shape=(2, 3))
    plan = wl.plan(A, "spmv", device="cpu", select="spmv/none/csr/vector", updatable=True)
    converted = A.tocsr()
    assert plan.nnz == converted.nnz == 3
    plan.update_values(converted.data * 2)
    np.testing.assert_array_equal(plan @ np.array([1.0, 10.0, 100.0]), 2 * (A @ np.array([1.0, 10.0, 100.0])))


def test_torch_on_the_host():
    torch = pytest.importorskip("torch")
    A = matrix(np.float32)
    plan = wl.plan(A, "spmv", device="cpu", select="spmv/none/ell/vector", updatable=True)
    data, x = torch.from_numpy(new_values(A)), np.arange(30, dtype=np.float32)
    expected = with_values(A, data.numpy()) @ x
    for given in (data, torch.stack([data, data], 1)[:, 0], data.clone().requires_grad_().detach()):
        plan.update_values(np.zeros(A.nnz, np.float32))
        plan.update_values(given)
        np.testing.assert_allclose(plan @ x, expected, rtol=1e-5)
    with pytest.raises(errors.ParameterError, match="gradient"):
        plan.update_values(data.clone().requires_grad_())
    with torch.no_grad():
        plan.update_values(data.clone().requires_grad_())
    with pytest.raises(errors.DtypeError):
        plan.update_values(data.double())


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (4, 5)])
def test_without_entries(shape):
    plan = wl.plan(csr_array(shape), "spmv", device="cpu", select="spmv/none/csr/vector", updatable=True)
    plan.update_values(np.empty(0))
    np.testing.assert_array_equal(plan @ np.ones(shape[1]), np.zeros(shape[0]))
    with pytest.raises(errors.ShapeError):
        plan.update_values(np.ones(1))
