"""Sampled products on the CPU against float64 sums."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse import csr_array, random_array

import warploom as wl
from battery import battery
from sampled import DTYPES, assert_sampled, operands
from warploom import _bfloat16, errors


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", battery(np.float64))
def test_battery(name, dtype):
    A = battery(np.float64)[name]
    for k in (0, 1, 3, 4, 8, 33, 130):
        X, Y = operands(A.shape, k, dtype)
        assert_sampled(A, X, Y, wl.sddmm(A, X, Y))


def test_a_plan_is_of_the_pattern_alone():
    A = battery(np.float64)["random"].copy()
    plan = wl.sddmm_plan(A, device="cpu")
    kept = A.copy()
    A.indices[...], A.indptr[...] = 2**30, 2**30
    X, Y = operands(kept.shape, 8, "float32")
    assert_sampled(kept, X, Y, plan(X, Y))
    assert (plan.shape, plan.nnz, plan.candidate) == (kept.shape, kept.nnz, "sddmm/none/csr/warp_windows")
    assert "150 x 120" in repr(plan)


def test_values_of_the_matrix_do_not_count():
    A = battery(np.float64)["random"]
    X, Y = operands(A.shape, 5, "float64")
    expected = wl.sddmm(A, X, Y)
    for data in (np.full(A.nnz, np.nan), np.arange(A.nnz), np.ones(A.nnz, np.complex128)):
        np.testing.assert_array_equal(wl.sddmm(csr_array((data, A.indices, A.indptr), A.shape), X, Y), expected)


def test_other_formats_and_strides():
    A = random_array((30, 20), density=0.2, rng=np.random.default_rng(0), format="csr")
    X, Y = operands(A.shape, 6, "float32")
    expected = wl.sddmm(A, X, Y)
    np.testing.assert_array_equal(wl.sddmm(A.tocoo(), X, Y), expected)
    np.testing.assert_array_equal(wl.sddmm(wl.CSR(A.indptr, A.indices, A.data, A.shape), X, Y), expected)
    np.testing.assert_array_equal(wl.sddmm(A, np.asfortranarray(X), np.asfortranarray(Y)), expected)
    wide = np.zeros((30, 12), np.float32)
    wide[:, ::2] = X
    np.testing.assert_array_equal(wl.sddmm(A, wide[:, ::2], Y), expected)
    padded = np.zeros((30, 9), np.float32)
    padded[:, :6] = X
    np.testing.assert_array_equal(wl.sddmm(A, padded[:, :6], Y), expected)
    assert_sampled(A, X.astype(np.float64), Y.astype(np.float64), wl.sddmm(A, X.tolist(), Y.tolist()))


def test_out_is_written_to():
    A = battery(np.float64)["random"]
    X, Y = operands(A.shape, 7, "float64")
    plan, out = wl.sddmm_plan(A, device="cpu"), np.full(A.nnz, np.nan)
    assert plan(X, Y, out=out) is out
    assert_sampled(A, X, Y, out)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_come_back_as_tensors(dtype):
    torch = pytest.importorskip("torch")
    A = battery(np.float64)["random"]
    X, Y = operands(A.shape, 12, dtype)
    kind = getattr(torch, dtype)
    tensors = [torch.from_numpy(_bfloat16.cast(given, np.dtype(np.float64))).to(kind) for given in (X, Y)]
    found = wl.sddmm(A, *tensors)
    assert found.dtype == kind
    np.testing.assert_array_equal(_bfloat16.of_tensor(found), wl.sddmm(A, X, Y))


def test_values_of_half_precision_overflow_to_infinity_and_nothing_else_does():
    A = csr_array(np.eye(3))
    X = np.array([[300.0], [-300.0], [1.0]], np.float16)
    np.testing.assert_array_equal(wl.sddmm(A, X, abs(X)), np.array([np.inf, -np.inf, 1], np.float16))


def test_results_multiply_as_the_values_of_a_plan():
    torch = pytest.importorskip("torch")
    import warploom.torch

    A = random_array((30, 20), density=0.2, rng=np.random.default_rng(0), format="csr")
    X, Y = (torch.randn(rows, 4, dtype=torch.float64) for rows in A.shape)
    values = wl.sddmm(A, X, Y)
    plan = wl.plan(A, k=4, device="cpu", select="spmm/none/csr/row_split", updatable=True)
    C = warploom.torch.spmm(plan, Y, values)
    dense = (X @ Y.T).numpy() * (A.toarray() != 0)
    np.testing.assert_allclose(C.numpy(), dense @ Y.numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    ("kind", "argument", "change"),
    [
        (errors.ShapeError, "X", {"X": np.ones((3, 2))}),
        (errors.ShapeError, "X", {"X": np.ones(2)}),
        (errors.ShapeError, "Y", {"Y": np.ones((2, 2))}),
        (errors.ShapeError, "Y", {"Y": np.ones((3, 5))}),
        (errors.DtypeError, "X", {"X": np.ones((2, 2), np.int32)}),
        (errors.DtypeError, "X", {"X": np.ones((2, 2), np.complex64)}),
        (errors.DtypeError, "Y", {"Y": np.ones((3, 2), np.float32)}),
        (errors.InvalidMatrixError, "A", {"A": np.eye(3)}),
        (errors.ParameterError, "device", {"device": "tpu"}),
    ],
)
def test_errors_name_the_argument(kind, argument, change):
    given = {"A": csr_array((2, 3)), "X": np.ones((2, 2)), "Y": np.ones((3, 2))} | change
    with pytest.raises(kind) as caught:
        wl.sddmm(given.pop("A"), given.pop("X"), given.pop("Y"), **given)
    assert caught.value.argument == argument


def test_plan_errors():
    A = scipy.sparse.csr_array((2, 3))
    for options in (
        {"select": "sddmm/none/csr/abacus"},
        {"select": "sddmm/none/csr/cusparse", "device": "cpu"},
        {"select": "sddmm/none/column-vectors/tensor_core", "device": "cpu"},
    ):
        with pytest.raises(errors.ParameterError) as caught:
            wl.sddmm_plan(A, **options)
        assert caught.value.argument == "select"
    plan = wl.sddmm_plan(csr_array(np.eye(3)), device="cpu")
    read_only = np.zeros(3)
    read_only.flags.writeable = False
    for kind, out in (
        (errors.ShapeError, np.zeros(4)),
        (errors.DtypeError, np.zeros(3, np.float32)),
        (errors.ParameterError, np.zeros(6)[::2]),
        (errors.ParameterError, read_only),
    ):
        with pytest.raises(kind) as caught:
            plan(np.ones((3, 2)), np.ones((3, 2)), out=out)
        assert caught.value.argument == "out"
    memory = np.ones(9)
    with pytest.raises(errors.ParameterError, match="out shares memory with Y"):
        plan(np.ones((3, 2)), memory[:6].reshape(3, 2), out=memory[5:8])
    np.testing.assert_array_equal(plan(memory[:6].reshape(3, 2), np.ones((3, 2)), out=memory[6:]), [2, 2, 2])
