"""Every registered SpMV kernel on the CPU, through its format, against float64 sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

import warploom as wl
from battery import battery
from products import assert_product, parameter_sets, permutations_of, prepare_spmv, spoil, unwritten, vector
from strategies import csr_matrices
from warploom import _bfloat16, errors
from warploom.candidates import kernels

KERNELS = [k for k in kernels("spmv") if "cpu" in k.devices]
CASES = [
    pytest.param(k, _bfloat16.as_dtype(dtype), id=f"{k.format}-{k.name}-{dtype}") for k in KERNELS for dtype in k.dtypes
]


def multiply(matrix, kernel, x, parameters=None, perm=None):
    """y, written over NaN; None if the kernel refuses the matrix."""
    plan = prepare_spmv(matrix, kernel, parameters, perm)
    if plan is None:
        return None
    y = unwritten((matrix.shape[0], 1), x.dtype)
    plan.run_host(x.reshape(-1, 1), y)
    return y[:, 0]


def check(matrix, kernel, x, **options):
    y = multiply(matrix, kernel, x, **options)
    if y is not None:
        assert_product(matrix, x[:, None], y[:, None])
    return y is not None


@pytest.mark.parametrize("name", battery(np.float32))
@pytest.mark.parametrize(("kernel", "dtype"), CASES)
def test_battery(kernel, dtype, name):
    matrix = battery(dtype)[name]
    x = vector(matrix.shape[1], dtype)
    for perm in permutations_of(kernel, matrix.shape[0]):
        if not check(matrix, kernel, x, perm=perm):
            pytest.skip("refused")


@pytest.mark.parametrize(("kernel", "dtype"), CASES)
def test_every_parameter_value(kernel, dtype):
    taken = 0
    for name in ("random wide", "one giant row", "empty rows", "random", "arrow"):
        matrix = battery(dtype)[name]
        x = vector(matrix.shape[1], dtype)
        for parameters in parameter_sets(kernel):
            taken += check(matrix, kernel, x, parameters=parameters)
    assert taken


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: f"{k.format}-{k.name}")
@given(matrix=csr_matrices(), seed=st.integers(0, 9))
@settings(max_examples=25)
def test_any_matrix(kernel, matrix, seed):
    dtype = _bfloat16.as_dtype(kernel.dtypes[-1])
    with np.errstate(over="ignore", invalid="ignore"):
        matrix = csr_array((matrix.data.astype(dtype), matrix.indices, matrix.indptr), shape=matrix.shape)
    if not np.isfinite(matrix.data).all() or (abs(matrix.data) > 1e100).any():
        return
    check(matrix, kernel, vector(matrix.shape[1], dtype, seed))


@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: f"{k.format}-{k.name}")
def test_a_plan_does_not_depend_on_the_matrix_it_was_made_from(kernel, index_dtype):
    expected = battery(np.float64)["random"]
    x = vector(expected.shape[1], np.float64)
    for perm in permutations_of(kernel, expected.shape[0]):
        matrix = expected.copy()
        matrix.indptr, matrix.indices = matrix.indptr.astype(index_dtype), matrix.indices.astype(index_dtype)
        plan = prepare_spmv(matrix, kernel, perm=perm)
        assert plan is not None
        spoil(matrix)
        y = np.full((expected.shape[0], 1), np.nan)
        plan.run_host(x[:, None], y)
        assert_product(expected, x[:, None], y)


@pytest.mark.parametrize(("kernel", "dtype"), CASES)
def test_the_result_does_not_depend_on_the_number_of_threads(kernel, dtype):
    matrix = csr_array(random_array((6_000, 5_000), density=0.01, rng=np.random.default_rng(3), format="csr"))
    matrix.data = matrix.data.astype(dtype)
    x = vector(5_000, dtype)
    results = []
    try:
        for threads in (1, 2, 5):
            wl.set_num_threads(threads)
            results.append(multiply(matrix, kernel, x))
    finally:
        wl.set_num_threads(0)
    if results[0] is None:
        pytest.skip("refused")
    assert_product(matrix, x[:, None], results[0][:, None])
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_names_are_unique_and_documented():
    names = [(k.format, k.name) for k in kernels("spmv")]
    assert len(set(names)) == len(names)
    for kernel in kernels("spmv"):
        assert kernel.summary.endswith(".")
        assert kernel.layouts == ("column",)
        assert all(p.meaning for p in kernel.parameters)
        assert kernel.complete({}) == {p.name: p.default for p in kernel.parameters}


def test_one_vector_only():
    matrix = battery(np.float64)["random"]
    plan = wl.plan(matrix, op="spmv", device="cpu", select="spmv/none/csr/vector")
    assert plan.floor_bytes == plan.nbytes + 8 * sum(matrix.shape)
    x = vector(matrix.shape[1], np.float64)
    expected = plan @ x
    np.testing.assert_array_equal(plan @ x[:, None], expected[:, None])
    out = np.empty(matrix.shape[0])
    assert plan(x, out=out) is out
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(plan @ np.repeat(x, 2)[::2], expected)
    with pytest.raises(errors.ShapeError, match="one vector") as caught:
        plan @ np.ones((matrix.shape[1], 2))
    assert caught.value.argument == "B"
    with pytest.raises(errors.ParameterError) as caught:
        wl.plan(matrix, op="spmv", k=2, device="cpu")
    assert caught.value.argument == "k"


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_selection_by_measurement(dtype):
    matrix = battery(np.dtype(dtype))["random"]
    plan = wl.plan(matrix, op="spmv", device="cpu", candidates="spmv/none/*")
    rows = plan.explain().rows
    assert {r.candidate.split("/")[2] for r in rows if "/" in r.candidate} >= {"csr", "padded-csr"}
    assert not [r.note for r in rows if "wrong" in r.note]
    x = vector(matrix.shape[1], dtype)
    y = plan @ x
    assert y.dtype == dtype
    assert_product(matrix, x[:, None], y[:, None])


def test_candidates_of_one_operation_are_not_taken_for_another():
    matrix = battery(np.float64)["random"]
    x = vector(matrix.shape[1], np.float64)
    for call in (
        lambda: wl.spmv(matrix, x, candidate="spmm/none/csr/row_split", device="cpu"),
        lambda: wl.spmm(matrix, x[:, None], candidate="spmv/none/csr/vector", device="cpu"),
        lambda: wl.plan(matrix, op="spmv", select="spmm/none/csr/row_split", device="cpu"),
    ):
        with pytest.raises(errors.ParameterError, match="is not a candidate for"):
            call()


def test_threads_per_row_of_every_block_are_checked():
    matrix = battery(np.float64)["arrow"]
    name = "spmv/none/csr/blockwise[long_row=128]"
    short = int((~np.asarray(wl.partition.partition_rows(matrix, long_row=128).is_long, bool)).sum())
    x = vector(matrix.shape[1], np.float64)
    plan = wl.plan(matrix, op="spmv", device="cpu", select=name, inputs={"block_threads_per_row": [8] * short})
    assert_product(matrix, x[:, None], (plan @ x)[:, None])
    for select, threads in (
        (name, [8] * (short + 1)),
        (name, [3] * short),
        (name, [0.5] * short),
        ("spmv/none/csr/vector", [8] * short),
        ("measure", [8] * short),
    ):
        with pytest.raises(errors.ParameterError) as caught:
            wl.plan(matrix, op="spmv", device="cpu", select=select, inputs={"block_threads_per_row": threads})
        assert caught.value.argument == "block_threads_per_row"
